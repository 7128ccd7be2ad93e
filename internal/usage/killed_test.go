package usage_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

var errKilled = errors.New("killed")

// after returns a ledger that calls then before each append but the first few,
// and does nothing if that returns an error.
func after(appends int, ledger quota.Ledger, then func() error) quota.Ledger {
	return testledger.Before(ledger, func(op string) error {
		if op == "append" {
			appends--
		}
		if appends < 0 {
			return then()
		}
		return nil
	})
}

// TestKilledLoweringOfANoteLosesNothing: what remains of a note was lost if the
// process ended between the refund and the new entry.
func TestKilledLoweringOfANoteLosesNothing(t *testing.T) {
	for steps, err := 0, errKilled; errors.Is(err, errKilled); steps++ {
		ledger := memledger.Open(nil)
		r := newReconcileStand(t, ledger, []quota.Budget{{Name: "all"}})
		if err := r.guard.Note(t.Context(),
			quota.Note{Call: quota.Call{Account: "p", Method: "x", Units: 400}}); err != nil {
			t.Fatal(err)
		}
		err = newReconcileStand(t, after(steps, ledger, func() error { return errKilled }),
			[]quota.Budget{{Name: "all"}}).reconcile(true, map[string]quota.Units{"all": 150})
		if used := r.balances()[0].Used; used < 150 {
			t.Errorf("%d units after %d operations, %v; want 150 at least", used, steps, err)
		}
	}
}

// TestInterruptedLoweringOfANoteCountsOnce: an interrupt between the new entry
// and the refund left what remains of a note counted twice. It changes all or
// nothing.
func TestInterruptedLoweringOfANoteCountsOnce(t *testing.T) {
	for steps := range 8 {
		ledger, err := sqliteledger.Open(filepath.Join(t.TempDir(), "ledger.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ledger.Close()
		budgets := []quota.Budget{{Name: "all"}}
		r := newReconcileStand(t, ledger, budgets)
		if err := r.guard.Note(t.Context(),
			quota.Note{Call: quota.Call{Account: "p", Method: "x", Units: 400}}); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		guard := newReconcileStand(t, after(steps, ledger, func() error { interrupt(); return nil }), budgets).guard
		_, err = usage.Reconcile(ctx, guard, "p", []usage.Reading{{Budget: "all", Used: 150}}, true)
		used := r.balances()[0].Used
		if isDone := err == nil && used == 150; !isDone && used != 400 {
			t.Errorf("%d units after %d operations, %v; want 150, or 400 as before", used, steps, err)
		}
		interrupt()
	}
}
