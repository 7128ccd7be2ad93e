package inspect_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// TestReturnsPrintedBeforeTheyAreBack: status printed +201 at the time at
// which the first unit of that minute returned. At each time that is printed,
// and each in the JSON, the ledger must have what is promised by then.
func TestReturnsPrintedBeforeTheyAreBack(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	for name, window := range map[string]quota.Window{
		"sliding": quota.Sliding(time.Hour), "day": quota.Daily(time.UTC), "month": quota.Monthly(time.UTC),
		"day with a margin": quota.Daily(time.UTC).At(12 * time.Hour).WithMargin(time.Minute), // the calls lie around its boundary
	} {
		t.Run(name, func(t *testing.T) {
			testledger.Each(t, noon.Add(-30*time.Second), func(t *testing.T, l quota.Log, clock *time.Time) {
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
					if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: units, Caller: quota.Caller{Lane: "cron"}}); err != nil {
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
					for _, at := range []time.Time{r.At, printed} {
						*clock = at
						if back := start.Used - balance().Used; back < promised {
							t.Errorf("%s: %d units are back; %d were promised (%s)", at, back, promised, inspect.ReturnText(a, start.At))
						}
					}
				}
			})
		})
	}
}

// printedTime returns a time as ReturnText prints it.
func printedTime(at, now time.Time) string {
	s := &usage.BudgetReport{NextFree: []usage.Return{{At: at, Units: 1}}}
	var when, rest string
	fmt.Sscanf(inspect.ReturnText(s, now), "+1 %s %s", &when, &rest)
	return when + " " + rest
}
