package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// wrongClock is a SQLite ledger on its host's clock, which was wrong.
type wrongClock struct {
	*testing.T
	ledgertest.Clock
	dir    string
	budget quota.Budget
}

func newWrongClock(t *testing.T) *wrongClock {
	w := &wrongClock{T: t, dir: t.TempDir(), budget: quota.Budget{Account: account, Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}}
	w.Set(noon)
	return w
}

// process returns a guard as a new process has it, with a journal.
func (w *wrongClock) process(name string) (*quota.Guard, quota.Ledger) {
	inner, err := sqliteledger.Open(filepath.Join(w.dir, "ration.db"), &sqliteledger.Options{Now: w.Now})
	must(w.T, err)
	budgets := []quota.Budget{w.budget}
	l := journal.New(inner, filepath.Join(w.dir, name), &journal.Options{Budgets: budgets, Now: w.Now})
	g, err := quota.NewGuard(l, budgets, nil)
	must(w.T, err)
	return g, l
}

// spend spends a unit each second, and returns how many were granted.
func (w *wrongClock) spend(g *quota.Guard, calls int) (granted int) {
	for range calls {
		w.Add(time.Second)
		if _, err := g.Spend(w.Context(), quota.Call{Account: account, Method: "m", Units: 1}); err == nil {
			granted++
		}
	}
	return granted
}

func (w *wrongClock) used(g *quota.Guard) quota.Units {
	balances, err := g.Balances(w.Context())
	must(w.T, err)
	return balances[0].Used
}

// lose deletes the ledger.
func (w *wrongClock) lose(open ...quota.Ledger) {
	for _, l := range open {
		must(w.T, l.Close())
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		_ = os.Remove(filepath.Join(w.dir, "ration.db"+suffix)) // there may be none
	}
}

// TestLossAfterAWrongClock: a host that is alone is answered after a loss as if
// nothing had been lost, although its clock was ahead once, whether the log was
// restamped since or not. The ahead stamps went for the time of calls, and what
// others had spent by then.
func TestLossAfterAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Second, 4 * time.Minute, 2 * time.Hour, 10 * 24 * time.Hour} {
		for _, isRestamped := range []bool{true, false} {
			for _, later := range []time.Duration{0, 3 * time.Hour, 5 * 24 * time.Hour} {
				for _, isNewProcess := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s ahead, restamped %t, %s later, another process %t", ahead, isRestamped, later, isNewProcess), func(t *testing.T) {
						w := newWrongClock(t)
						guard, ledger := w.process("journal")
						w.Add(ahead)
						w.spend(guard, 30)
						w.Add(-ahead)
						if isNewProcess {
							must(t, ledger.Close())
							guard, ledger = w.process("journal")
						}
						if isRestamped {
							changed, err := guard.Restamp(t.Context(), account)
							must(t, err)
							if changed == 0 && ahead > time.Minute {
								t.Error("nothing was restamped")
							}
						}
						w.Add(later)
						w.spend(guard, 10)
						before := w.used(guard)
						w.lose(ledger)
						guard, ledger = w.process("journal")
						defer ledger.Close()
						w.spend(guard, 1)
						want := before + 1
						if got := w.used(guard); got != want {
							t.Errorf("%d used after the loss and a call; want %d", got, want)
						}
					})
				}
			}
		}
	}
}

// TestLossAfterARestamp: what others had spent when this host last heard,
// before and after it restamped the log, is noted after a loss.
func TestLossAfterARestamp(t *testing.T) {
	for _, others := range []int{0, 39} { // calls of the other host after it
		w := newWrongClock(t)
		here, ledger := w.process("here")
		there, other := w.process("there")
		w.Add(100 * time.Second)
		granted := w.spend(there, 40) + w.spend(here, 1)
		w.Add(-100 * time.Second)
		if _, err := here.Restamp(t.Context(), account); err != nil {
			t.Fatal(err)
		}
		granted += w.spend(there, others) + w.spend(here, 39-others)
		if others > 0 {
			granted += w.spend(here, 1) // hears of them
		}
		w.Add(2 * time.Hour)
		w.lose(ledger, other)
		here, ledger = w.process("here")
		granted += w.spend(here, 200)
		if granted != 100 {
			t.Errorf("%d calls of the other after the restamp: %d were granted of 100", others, granted)
		}
		must(t, ledger.Close())
	}
}

// TestCallIsSettledInAnEarlierHour: a call was granted, and settled, while the
// host's clock was ahead, and turned out to cost more when it was right again.
// The journal has the second in the file of an earlier hour, and lost it.
func TestCallIsSettledInAnEarlierHour(t *testing.T) {
	w := newWrongClock(t)
	here, ledger := w.process("here")
	w.Add(2 * time.Hour)
	grant, err := here.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 10})
	must(t, err)
	must(t, grant.Settle(t.Context(), 12))
	w.Add(-2 * time.Hour)
	must(t, grant.Settle(t.Context(), 30))
	w.lose(ledger)
	here, ledger = w.process("here")
	w.spend(here, 1)
	if used := w.used(here); used != 31 {
		t.Errorf("%d used after the loss; want 31", used)
	}
	must(t, ledger.Close())
}

// TestLossWhileAClockIsAhead: a host notes what another had spent, while the
// clock is ahead. When that is corrected and a third host restores the log, the
// note stays, and there is one, whether the log is restamped or not.
func TestLossWhileAClockIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{4 * time.Minute, 2 * time.Hour} {
		for _, isRestamped := range []bool{false, true} {
			w := newWrongClock(t)
			here, ledger := w.process("here")
			there, other := w.process("there")
			third, last := w.process("third")
			granted := w.spend(third, 5)
			w.Add(ahead)
			granted += w.spend(there, 30) + w.spend(here, 10)
			w.lose(ledger, other, last)
			here, ledger = w.process("here")
			granted += w.spend(here, 1)
			w.Add(-ahead)
			if isRestamped {
				_, err := here.Restamp(t.Context(), account)
				must(t, err)
			}
			granted += w.spend(here, 7)
			third, last = w.process("third")
			granted += w.spend(third, 1)
			used := w.used(third)
			if most := quota.Units(granted + 1); granted != 54 || used < quota.Units(granted) || used > most {
				t.Errorf("%s ahead, restamped %t: %d used after %d calls of 54; want %d at most", ahead, isRestamped, used, granted, most)
			}
			must(t, ledger.Close())
			must(t, last.Close())
		}
	}
}

// TestRestampInALaterHour: the clock of a ledger that hosts share was ahead,
// and what a host was granted then is in the journal of an earlier hour than
// the restamp. What others have spent since is noted after a loss.
func TestRestampInALaterHour(t *testing.T) {
	for _, minute := range []time.Duration{30, 59} { // of the calls; the restamp is two minutes later
		w := newWrongClock(t)
		w.Set(noon.Add(minute * time.Minute))
		ahead := 4 * time.Minute
		var shared quota.Ledger
		host := func(name string) *quota.Guard {
			inner, budgets := failing(nil), []quota.Budget{w.budget}
			inner.Ledger = shared
			l := journal.New(inner, filepath.Join(w.dir, name), &journal.Options{Budgets: budgets, Now: w.Now})
			g, err := quota.NewGuard(l, budgets, nil)
			must(t, err)
			return g
		}
		open := func() {
			shared = memledger.Open(&memledger.Options{Now: func() time.Time { return w.Now().Add(ahead) }})
		}
		open()
		here, there := host("here"), host("there")
		granted := w.spend(here, 5) + w.spend(there, 1)
		ahead = 0
		w.Add(2 * time.Minute)
		_, err := here.Restamp(t.Context(), account)
		must(t, err)
		granted += w.spend(there, 50) + w.spend(here, 1) // which hears of them
		open()
		granted += w.spend(host("here"), 200)
		if granted != 100 {
			t.Errorf("calls at minute %d: %d were granted of 100", minute, granted)
		}
	}
}
