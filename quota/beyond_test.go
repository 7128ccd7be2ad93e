package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestRetryAtIsCutToOneWindow: a counter may make a call wait for two of its
// windows, and floors that end make a large one wait for those of the next day.
// The times are exact: the call is refused just before.
func TestRetryAtIsCutToOneWindow(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		budget       quota.Budget
		spent, large quota.Units
		after        time.Duration
	}{
		"counter": {quota.Budget{Window: quota.Counter(time.Minute)}, 100, 100, 2 * time.Minute},
		"floors": {quota.Budget{Window: quota.Daily(time.UTC).WithMargin(0), Floor: map[string]quota.Units{"IN": 90}, FloorUntil: 2 * time.Hour},
			60, 50, 34 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &ledgertest.Clock{}
			clock.Set(noon)
			test.budget.Account, test.budget.Name, test.budget.Limit = account, "day", 100
			guard := newGuard(t, &memledger.Options{Now: clock.Now}, test.budget)
			first, large := call("m", test.spent), call("m", test.large)
			first.Caller.Region = "IN"
			if _, err := guard.Spend(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			_, err := guard.Spend(t.Context(), large)
			refused, ok := errors.AsType[*quota.RefusedError](err)
			if !ok || refused.RetryAfter != test.after {
				t.Fatalf("%+v, %v; want to wait %s", refused, err, test.after)
			}
			clock.Set(refused.RetryAt.Add(-time.Microsecond))
			if _, err := guard.Spend(t.Context(), large); !errors.Is(err, quota.ErrRefused) {
				t.Errorf("just before: %v", err)
			}
			clock.Set(refused.RetryAt)
			if _, err := guard.Spend(t.Context(), large); err != nil {
				t.Errorf("at its time: %v", err)
			}
		})
	}
}
