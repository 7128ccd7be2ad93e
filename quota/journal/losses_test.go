package journal_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestLossesFollowEachOther: a ledger that four hosts share is lost every three
// hours for five days, and the host that had heard of all calls returns first.
// No window admits more than its limit, no call fails otherwise than by a
// refusal, and a window after the last loss all is free.
func TestLossesFollowEachOther(t *testing.T) {
	w := newWrongClock(t)
	budget := w.budget
	budget.Config = quota.Config{Name: "costs.yaml", Changed: noon}
	shared := failing(nil)
	var hosts []*quota.Guard
	for _, name := range []string{"a", "b", "c", "d"} {
		l := journal.New(shared, filepath.Join(w.dir, name), &journal.Options{Budgets: []quota.Budget{budget}, Now: w.Now})
		guard, err := quota.NewGuard(l, []quota.Budget{budget}, nil)
		must(t, err)
		hosts = append(hosts, guard)
	}
	var granted []time.Time
	spend := func(guard *quota.Guard, calls int) (n int) {
		for range calls {
			w.Add(time.Second)
			_, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
			if err == nil {
				granted, n = append(granted, w.Now()), n+1
			} else if !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
		}
		return n
	}
	for range 48 {
		shared.Ledger = memledger.Open(&memledger.Options{Now: w.Now})
		for _, guard := range hosts {
			spend(guard, 10)
			w.Add(40 * time.Minute)
		}
		slices.Reverse(hosts)
	}
	for i := range granted {
		if first := max(0, i-100); i-first == 100 && granted[i].Sub(granted[first]) < 24*time.Hour {
			t.Fatalf("101 were granted from %s to %s", granted[first], granted[i])
		}
	}
	w.Add(24 * time.Hour)
	if n := spend(hosts[0], 110); n != 100 {
		t.Errorf("%d were granted a window after the last loss; want 100", n)
	}
}

// emptied is a ledger that something empties before each spend.
type emptied struct {
	*faulty
	always bool
}

func (e *emptied) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if e.always {
		e.Ledger = memledger.Open(nil)
	}
	return e.faulty.Spend(ctx, batch)
}

// TestLedgerThatIsEmptiedAgainAndAgain: the call fails, and says what to do.
func TestLedgerThatIsEmptiedAgainAndAgain(t *testing.T) {
	inner := &emptied{faulty: failing(nil)}
	l := journal.New(inner, t.TempDir(), nil)
	if _, err := spend(t.Context(), l, "m", 1); err != nil {
		t.Fatal(err)
	}
	inner.always = true
	_, err := spend(t.Context(), l, "m", 1)
	if !errors.Is(err, quota.ErrLedgerLost) || !strings.HasSuffix(err.Error(), "it was restored 3 times for this call, and lost again each time: find what empties it") {
		t.Errorf("%v; want what to look for", err)
	}
}
