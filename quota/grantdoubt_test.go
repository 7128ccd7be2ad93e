package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// lossy is a ledger whose answers to settles and refunds are lost, as often as
// lost says; arrive says whether the ledger got them.
type lossy struct {
	quota.Ledger
	lost   int
	arrive bool
}

func (l *lossy) change(run func() error) error {
	if l.lost == 0 {
		return run()
	}
	l.lost--
	if l.arrive {
		if err := run(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its answer was lost", quota.ErrInDoubt)
}

func (l *lossy) Settle(ctx context.Context, r quota.Receipt, units quota.Units) error {
	return l.change(func() error { return l.Ledger.Settle(ctx, r, units) })
}

func (l *lossy) Refund(ctx context.Context, r quota.Receipt) error {
	return l.change(func() error { return l.Ledger.Refund(ctx, r) })
}

// TestDoubtfulSettleOfACounter: a caller repeats a settle or refund whose
// answer was lost. A log that keeps no entries lowered the charge twice, and so
// returned units of other calls.
func TestDoubtfulSettleOfACounter(t *testing.T) {
	counter := quota.Budget{Account: account, Name: "counter", Limit: 1000, Window: quota.Counter(time.Hour)}
	changes := map[string]func(context.Context, *quota.Grant) error{
		"settle": func(ctx context.Context, g *quota.Grant) error { return g.Settle(ctx, 0) },
		"refund": func(ctx context.Context, g *quota.Grant) error { return g.Refund(ctx) },
	}
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		ledger := &lossy{}
		guard := openGuard(t, func() (quota.Ledger, error) {
			var err error
			ledger.Ledger, err = open()
			return ledger, err
		}, counter)
		if _, err := guard.Spend(t.Context(), call("m", 300)); err != nil {
			t.Fatal(err)
		}
		for name, change := range changes {
			for _, arrive := range []bool{true, false} {
				before := used(t, guard)
				grant, err := guard.Spend(t.Context(), call("m", 50))
				if err != nil {
					t.Fatal(err)
				}
				ledger.lost, ledger.arrive = 1, arrive
				if err := change(t.Context(), grant); !errors.Is(err, quota.ErrInDoubt) {
					t.Fatalf("%s: %v; want a doubt", name, err)
				}
				if err := change(t.Context(), grant); !errors.Is(err, quota.ErrStays) {
					t.Errorf("%s again: %v; want that the units stay", name, err)
				}
				if now := used(t, guard); now < before {
					t.Errorf("%s (arrived: %t): %d units; want the %d of other calls at least", name, arrive, now, before)
				}
			}
		}
	})
}
