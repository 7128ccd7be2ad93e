package journal_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// Two budgets of one account, which two processes of a host have.
var (
	ofADay   = quota.Budget{Account: account, Name: "day", Methods: []string{"m"}, Limit: 10_000, Window: quota.Sliding(24 * time.Hour)}
	ofAMonth = quota.Budget{Account: account, Name: "month", Methods: []string{"m"}, Limit: 500, Window: quota.Monthly(time.UTC)}
)

// keeper makes processes of one host, on a ledger that can forget.
type keeper struct {
	*testing.T
	ledgertest.Clock
	inner *faulty
	dir   string
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{T: t, inner: failing(nil), dir: t.TempDir()}
	k.Set(time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC))
	k.forget()
	return k
}

func (k *keeper) forget() { k.inner.Ledger = memledger.Open(&memledger.Options{Now: k.Now}) }

func (k *keeper) process(b quota.Budget) *quota.Guard {
	l := journal.New(k.inner, k.dir, &journal.Options{Budgets: []quota.Budget{b}, Now: k.Now})
	g, err := quota.NewGuard(l, []quota.Budget{b}, nil)
	must(k.T, err)
	return g
}

func (k *keeper) files() int {
	found, err := filepath.Glob(filepath.Join(k.dir, "*.journal"))
	must(k.T, err)
	return len(found)
}

// TestShorterWindowsDeleteTheJournal: a process keeps and restores what the
// longer windows of another process of its host need, whichever of them notices
// the loss.
func TestShorterWindowsDeleteTheJournal(t *testing.T) {
	for _, first := range []string{"short", "new and short", "new and long"} {
		t.Run(first, func(t *testing.T) {
			k := newKeeper(t)
			short, long := k.process(ofADay), k.process(ofAMonth)
			total, err := calls(long, 400)
			must(t, err)
			for range 80 {
				k.Add(time.Hour)
				n, err := calls(short, 1)
				must(t, err)
				total += n
			}
			k.forget()
			switch first {
			case "short":
				_, err = calls(short, 1)
			case "new and short":
				_, err = calls(k.process(ofADay), 1)
			case "new and long":
				_, err = calls(k.process(ofAMonth), 1)
			}
			must(t, err)
			n, _ := calls(long, 1000)
			if total += 1 + n; total != 500 {
				t.Errorf("%d calls in one month; want 500", total)
			}
		})
	}
}

// TestLongerWindowsComeLater: a process that has dropped old records restores
// them for another that needs them.
func TestLongerWindowsComeLater(t *testing.T) {
	k := newKeeper(t)
	short := k.process(ofADay)
	total, err := calls(short, 400)
	must(t, err)
	k.Add(30 * time.Hour)
	k.forget()
	n, err := calls(short, 1)
	must(t, err)
	total += n
	n, err = calls(k.process(ofAMonth), 1)
	must(t, err)
	total += n
	k.Add(time.Hour)
	k.forget()
	n, err = calls(short, 1)
	must(t, err)
	total += n
	n, _ = calls(k.process(ofAMonth), 1000)
	if total += n; total != 500 {
		t.Errorf("%d calls in one month; want 500", total)
	}
}

// TestWindowsOutOfUseKeepTheJournal: once no process has long windows any more,
// and their records are old, files go as short windows say.
func TestWindowsOutOfUseKeepTheJournal(t *testing.T) {
	k := newKeeper(t)
	short, long := k.process(ofADay), k.process(ofAMonth)
	_, err := calls(long, 1)
	must(t, err)
	found, err := filepath.Glob(filepath.Join(k.dir, "*.keep"))
	if err != nil || len(found) != 1 || !strings.HasPrefix(string(read(t, found[0])), ofAMonth.Window.Horizon().String()+" 2026-11-02T12:") {
		t.Fatalf("files %v, %v; want one of a month", found, err)
	}
	for day := 1; day <= 80; day++ {
		k.Add(24 * time.Hour)
		_, err := calls(short, 1)
		must(t, err)
		if day == 66 && k.files() != 67 {
			t.Errorf("%d files after %d days; want one of each", k.files(), day)
		}
	}
	if k.files() > 5 {
		t.Errorf("%d files after 80 days; want those of the last 76 h", k.files())
	}
	write(t, found[0], []byte("a month"))
	k.Add(24 * time.Hour)
	if _, err := calls(short, 1); err != nil || !strings.HasPrefix(string(read(t, found[0])), "24h0m0s 2027-01-22T12:") {
		t.Errorf("%q, %v; want a malformed file to be replaced", read(t, found[0]), err)
	}
}

// TestRefusedWindowsAreNotInUse: while each call of a process is refused, it
// writes no record, and what its windows need is kept all the same.
func TestRefusedWindowsAreNotInUse(t *testing.T) {
	k := newKeeper(t)
	month := ofAMonth
	month.Window = quota.Sliding(30 * 24 * time.Hour)
	short, long := k.process(ofADay), k.process(month)
	for day := range 50 {
		n, err := calls(short, 30)
		must(t, err)
		refused, _ := calls(long, 1)
		if n != 30 || refused != 0 && day > 20 {
			t.Fatalf("day %d: %d calls by one file and %d by the other; want 30, and from day 20 on none", day, n, refused)
		}
		k.Add(24 * time.Hour)
	}
	k.forget()
	_, err := calls(k.process(ofADay), 1)
	must(t, err)
	var held quota.Units
	for e, err := range k.inner.Entries(t.Context(), quota.Query{Account: account, Since: k.Now().Add(-29 * 24 * time.Hour)}) {
		must(t, err)
		if e.Kind != quota.EntryNote {
			held += e.Units
		}
	}
	if held != 29*30+1 {
		t.Errorf("the ledger holds %d units of 29 days; want 30 a day and 1", held)
	}
}

// TestOwedCallsArePruned: what was sent while the ledger was down is charged,
// although the host's clock jumped ahead by days meanwhile.
func TestOwedCallsArePruned(t *testing.T) {
	for _, c := range []struct {
		name    string
		isAhead bool
		boot    uint64
		want    int // calls in the outage
	}{
		{"the clock is right again", false, 0, 200},
		{"the clock is still ahead", true, 0, 200},
		{"the host tells how long it runs", true, 1, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeeper(t)
			began := k.Now()
			var ahead time.Duration
			o := allow(50)
			o.Budgets = []quota.Budget{ofADay}
			o.Now = func() time.Time { return k.Now().Add(ahead) }
			o.Uptime = func() (uint64, time.Duration) { return c.boot, k.Now().Sub(began) }
			used := journal.New(k.inner, k.dir, o)
			grant := func(l quota.Ledger, most int) (granted int) {
				g, err := quota.NewGuard(l, o.Budgets, nil)
				must(t, err)
				granted, _ = calls(g, most)
				return granted
			}
			if n := grant(used, 480); n != 480 {
				t.Fatalf("%d calls; want 480", n)
			}
			k.inner.fail(errDown)
			sent := 0
			for _, ahead = range []time.Duration{0, 25 * time.Hour, 50 * time.Hour, 75 * time.Hour} {
				sent += grant(used, 100)
			}
			if sent != c.want {
				t.Fatalf("%d calls in the outage; want %d", sent, c.want)
			}
			if !c.isAhead {
				ahead = 0
			}
			k.inner.fail(nil)
			back := journal.New(k.inner, k.dir, o)
			if n := grant(back, 1); n != 1 {
				t.Fatal("no call after the outage")
			}
			unrecorded(t, back, 0)
			var held quota.Units
			for e, err := range k.inner.Entries(t.Context(), quota.Query{Account: account}) {
				must(t, err)
				if held += e.Units; e.At.After(k.Now().Add(time.Second)) {
					t.Fatalf("an entry is stamped %v, after %v", e.At, k.Now())
				}
			}
			if want := quota.Units(480 + c.want + 1); held != want {
				t.Errorf("the ledger holds %d units; want %d", held, want)
			}
		})
	}
}
