package usage_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// killed is a ledger whose process is killed after some of its operations.
type killed struct {
	quota.Log
	left int
}

var errKilled = errors.New("killed")

func (k *killed) step() error {
	if k.left == 0 {
		return errKilled
	}
	k.left--
	return nil
}

func (k *killed) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := k.step(); err != nil {
		return nil, err
	}
	return k.Log.Spend(ctx, batch)
}

func (k *killed) Refund(ctx context.Context, receipt quota.Receipt) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Log.Refund(ctx, receipt)
}

// TestKilledLoweringOfANoteLosesNothing: what remains of a note was lost if the
// process ended between the refund and the new entry.
func TestKilledLoweringOfANoteLosesNothing(t *testing.T) {
	for steps, err := 0, errKilled; errors.Is(err, errKilled); steps++ {
		ledger := testledger.Memory(nil)
		r := newReconcileStand(t, ledger, []quota.Budget{{Name: "all"}})
		if err := r.guard.Note(t.Context(),
			quota.Note{Call: quota.Call{Account: "p", Method: "x", Units: 400}}); err != nil {
			t.Fatal(err)
		}
		err = newReconcileStand(t, &killed{ledger, steps}, []quota.Budget{{Name: "all"}}).reconcile(true,
			map[string]quota.Units{"all": 150})
		if used := r.balances()[0].Used; used < 150 {
			t.Errorf("%d units after %d operations, %v; want 150 at least", used, steps, err)
		}
	}
}

// interrupted is a ledger whose caller is told to end before some operation.
type interrupted struct {
	killed
	interrupt context.CancelFunc
}

func (i *interrupted) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if i.step() != nil {
		i.interrupt()
	}
	return i.Log.Spend(ctx, batch)
}

func (i *interrupted) Refund(ctx context.Context, receipt quota.Receipt) error {
	if i.step() != nil {
		i.interrupt()
	}
	return i.Log.Refund(ctx, receipt)
}

// TestInterruptedLoweringOfANoteCountsOnce: an interrupt between the new entry
// and the refund left what remains of a note counted twice. It changes all or
// nothing.
func TestInterruptedLoweringOfANoteCountsOnce(t *testing.T) {
	for steps := range 8 {
		ledger, err := testledger.SQLite(filepath.Join(t.TempDir(), "ledger.db"), nil)
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
		guard := newReconcileStand(t, &interrupted{killed{ledger, steps}, interrupt}, budgets).guard
		_, err = usage.Reconcile(ctx, guard, "p", []usage.Reading{{Budget: "all", Used: 150}}, true)
		used := r.balances()[0].Used
		if isDone := err == nil && used == 150; !isDone && used != 400 {
			t.Errorf("%d units after %d operations, %v; want 150, or 400 as before", used, steps, err)
		}
		interrupt()
	}
}
