package reconcile_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// killed is a ledger whose process is killed after some of its operations.
type killed struct {
	quota.Ledger
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
	return k.Ledger.Spend(ctx, batch)
}

func (k *killed) Refund(ctx context.Context, receipt quota.Receipt) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Ledger.Refund(ctx, receipt)
}

// TestKilledWhileItLowersANote: what remains of a note was lost if the process
// ended between the refund and the new entry.
func TestKilledWhileItLowersANote(t *testing.T) {
	for steps, err := 0, errKilled; errors.Is(err, errKilled); steps++ {
		ledger := memledger.Open(nil)
		r := newStand(t, ledger, []quota.Budget{{Name: "all"}})
		if err := r.guard.Note(t.Context(), quota.Note{Call: quota.Call{Account: "p", Method: "x", Units: 400}}); err != nil {
			t.Fatal(err)
		}
		err = newStand(t, &killed{ledger, steps}, []quota.Budget{{Name: "all"}}).reconcile(true, map[string]quota.Units{"all": 150})
		if used := r.balances()[0].Used; used < 150 {
			t.Errorf("%d units after %d operations, %v; want 150 at least", used, steps, err)
		}
	}
}
