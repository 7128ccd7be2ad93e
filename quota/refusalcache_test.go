package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func TestRefusalIsCachedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := false // the ledger
		ledger := testledger.Before(memledger.Open(nil), func(string) error { asks = true; return nil })
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, time.Minute)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		spend := func(units quota.Units, after time.Duration, wantAsks bool) *quota.Grant {
			t.Helper()
			asks = false
			grant, err := guard.Spend(t.Context(), call("m", units))
			no, refused := errors.AsType[*quota.RefusedError](err)
			switch {
			case refused != (after > 0):
				t.Fatalf("%d units: %v; want refused %t", units, err, after > 0)
			case refused && (no.RetryAfter != after || !no.RetryAt.Equal(time.Now().Add(after))):
				t.Fatalf("refused for %s until %s; want %s", no.RetryAfter, no.RetryAt, after)
			case asks != wantAsks:
				t.Fatalf("%d units asked the ledger: %t", units, asks)
			}
			return grant
		}
		grant := spend(10, 0, true)
		time.Sleep(10 * time.Second)
		spend(3, 50*time.Second, true)
		time.Sleep(900 * time.Millisecond)
		spend(3, 49100*time.Millisecond, false) // remembered, and its wait has shrunk
		spend(2, 49100*time.Millisecond, true)  // another cost may have another retry time
		spend(3, 49100*time.Millisecond, false) // both are remembered
		spend(2, 49100*time.Millisecond, false)
		time.Sleep(time.Second)
		spend(3, 48100*time.Millisecond, true) // at most a second: others may have returned units
		spend(3, 48100*time.Millisecond, false)
		if err := grant.Settle(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		spend(3, 48100*time.Millisecond, true) // units returned by this guard end it at once
		spend(2, 0, true)
		time.Sleep(48*time.Second - 500*time.Millisecond)
		spend(3, 600*time.Millisecond, true)
		time.Sleep(600 * time.Millisecond)
		spend(3, 0, true) // never beyond its RetryAt
	})
}

// TestClearingACooldownEndsACachedRefusal: a cooldown that an operator sets
// or clears takes effect with the next call of the same process, not a
// second later.
func TestClearingACooldownEndsACachedRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 10, time.Hour))
		refused := func(units quota.Units) quota.Reason {
			t.Helper()
			_, err := guard.Spend(t.Context(), call("m", units))
			if no, ok := errors.AsType[*quota.RefusedError](err); ok {
				return no.Reason
			}
			return ""
		}
		if got := refused(8); got != "" {
			t.Fatalf("the first call: %s", got)
		}
		if got := refused(3); got != quota.ReasonSpent {
			t.Fatalf("refused by %q; want spent", got)
		}
		if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, For: 2 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		if got := refused(3); got != quota.ReasonCooldown {
			t.Errorf("once the account cools down: refused by %q; want the cooldown", got)
		}
		if got := refused(2); got != quota.ReasonCooldown {
			t.Errorf("another cost: refused by %q; want the cooldown", got)
		}
		if err := guard.ClearCooldown(t.Context(), account, ""); err != nil {
			t.Fatal(err)
		}
		if got := refused(2); got != "" {
			t.Errorf("once the cooldown is lifted: refused by %q; want a grant", got)
		}
	})
}
