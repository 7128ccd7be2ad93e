package quota_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// deafLedger is a ledger whose answers to spends are lost while it is deaf.
type deafLedger struct {
	quota.Ledger
	deaf atomic.Bool
}

// Spend implements quota.Ledger.
func (l *deafLedger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers, err := l.Ledger.Spend(ctx, batch)
	if l.deaf.Load() {
		return nil, quota.ErrInDoubt
	}
	return answers, err
}

// TestLostRenewalHoldsAReleasedClaim: the answers to renewals were lost. The
// claim is free at once when it is released, and no claim of another process is
// taken for one of them.
func TestLostRenewalHoldsAReleasedClaim(t *testing.T) {
	onEachLedger(t, func(t *testing.T, guard *quota.Guard, clock *ledgertest.Clock) {
		ledger := &deafLedger{Ledger: guard.Ledger()}
		doubtful, err := quota.NewGuard(ledger, guard.Budgets(), nil)
		succeed(t, err)
		claim, err := doubtful.Claim(t.Context(), claiming("first"))
		succeed(t, err)
		lose := func() {
			t.Helper()
			ledger.deaf.Store(true)
			if err := claim.Renew(t.Context()); !errors.Is(err, quota.ErrInDoubt) {
				t.Fatal(err)
			}
			ledger.deaf.Store(false)
		}
		lose()
		clock.Add(30 * time.Second)
		succeed(t, claim.Renew(t.Context()))
		lose()
		clock.Add(15 * time.Second)
		succeed(t, claim.Release(t.Context()))
		second := claimEight(t, guard, "second", 1)

		clock.Add(30 * time.Second)
		succeed(t, second.Renew(t.Context()))
		succeed(t, claim.Release(t.Context())) // again, late
		claimEight(t, guard, "third", 0)
	})
}

// TestLostRefundHoldsAReleasedClaim: what a renewal should have refunded does
// not hold the claim either.
func TestLostRefundHoldsAReleasedClaim(t *testing.T) {
	onEachLedger(t, func(t *testing.T, guard *quota.Guard, clock *ledgertest.Clock) {
		ledger := &lossy{Ledger: guard.Ledger()}
		doubtful, err := quota.NewGuard(ledger, guard.Budgets(), nil)
		succeed(t, err)
		claim, err := doubtful.Claim(t.Context(), claiming("first"))
		succeed(t, err)
		for range 2 {
			clock.Add(15 * time.Second)
			ledger.lost = 1
			if err := claim.Renew(t.Context()); !errors.Is(err, quota.ErrInDoubt) {
				t.Fatal(err)
			}
		}
		succeed(t, claim.Release(t.Context()))
		claimEight(t, guard, "second", 1)
	})
}
