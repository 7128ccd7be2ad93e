package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// TestReturnsAreBackWhenPrinted: status printed +201 at the time at which
// the first unit of that minute returned. At each time in the JSON, and by the
// end of each second that is printed, the ledger must have what is promised.
func TestReturnsAreBackWhenPrinted(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	for name, window := range map[string]quota.Window{
		"sliding": quota.Sliding(time.Hour), "day": quota.Daily(time.UTC), "month": quota.Monthly(time.UTC),
		// the calls lie around its boundary
		"day with a margin": quota.Daily(time.UTC).At(12 * time.Hour).WithMargin(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			testledger.Each(t, noon.Add(-30*time.Second), func(t *testing.T, l quota.Ledger, clock *time.Time) {
				budget := quota.Budget{Account: "p", Name: "b", Limit: 9500, Window: window}
				guard, err := quota.NewGuard(l, []quota.Budget{budget}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, after := range []time.Duration{0, 20, 50, 59, 61, 100, 119, 200, 300, 301, 900} {
					*clock = noon.Add(after*time.Second - 30*time.Second)
					units := quota.Units(1)
					if after == 50 || after == 301 {
						units = 200
					}
					if _, err := guard.Spend(t.Context(),
						quota.Call{Account: "p", Method: "m", Units: units,
							Caller: quota.Caller{Lane: "cron"}}); err != nil {
						t.Fatal(err)
					}
				}
				balance := func() quota.Balance {
					balances, err := guard.Balances(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return balances[0]
				}
				standings, err := usage.Status(t.Context(), guard)
				if err != nil {
					t.Fatal(err)
				}
				start, a := standings[0], usage.NewBudgetReport(&standings[0])
				if len(a.NextFree) == 0 || a.ByLane["cron"] != start.Used {
					t.Fatalf("%+v", a)
				}
				var promised quota.Units
				for _, r := range a.NextFree {
					promised += r.Units
					printed, err := time.Parse("2006-01-02 15:04:05Z", r.At.Format("2006-")+printedTime(r.At, start.At))
					if err != nil {
						t.Fatal(err)
					}
					if printed.After(r.At) {
						t.Errorf("what is back at %s is printed as %s", r.At, printed)
					}
					for _, at := range []time.Time{r.At, printed.Add(time.Second - time.Microsecond)} {
						*clock = at
						if back := start.Used - balance().Used; back < promised {
							t.Errorf("%s: %d units are back; %d were promised (%s)", at, back, promised,
								inspect.ReturnText(a, start.At))
						}
					}
				}
			})
		})
	}
}

// TestARefusalAndStatusNameOneTime: of a minute in which many calls were
// made, status said when the last of them returns, and a refusal when the first
// does, rounded up to a second at which the call had long fitted.
func TestARefusalAndStatusNameOneTime(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	testledger.Each(t, start, func(t *testing.T, l quota.Ledger, clock *time.Time) {
		guard, err := quota.NewGuard(l,
			[]quota.Budget{{Account: "p", Name: "b", Limit: 3, Window: quota.Sliding(time.Hour)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Account: "p", Method: "m", Units: 1}
		for i := range 3 {
			*clock = start.Add(time.Duration(i) * 25 * time.Second)
			if _, err := guard.Spend(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		_, err = guard.Spend(t.Context(), call)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		standings, statusErr := usage.Status(t.Context(), guard)
		if !ok || statusErr != nil {
			t.Fatal(err, statusErr)
		}
		report := usage.NewBudgetReport(&standings[0])
		if at := report.NextFree[0].At; !at.Equal(refused.RetryAt) || !report.NextFreeAt.Equal(at) {
			t.Errorf("a refusal says %s, status %s and %s", refused.RetryAt, at, report.NextFreeAt)
		}
		if text := inspect.ReturnText(report, *clock); !strings.HasPrefix(text, "+1 11-20 13:00:00Z (in 59m10s)") ||
			!strings.Contains(refused.Error(), "at 2026-11-20T13:00:00Z (in 59m10s)") {
			t.Errorf("status says %q, and a refusal %q", text, refused)
		}
		*clock = refused.RetryAt
		if _, err := guard.Spend(t.Context(), call); err != nil {
			t.Errorf("at %s: %v", refused.RetryAt, err)
		}
	})
}

// printedTime returns a time as ReturnText prints it.
func printedTime(at, now time.Time) string {
	s := &usage.BudgetReport{NextFree: []usage.Return{{At: at, Units: 1}}}
	var when, rest string
	fmt.Sscanf(inspect.ReturnText(s, now), "+1 %s %s", &when, &rest)
	return when + " " + rest
}
