package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestStatusHidesKeyedLogs: status showed the logs without a key only. It shows
// the ten fullest of each account, by the part of a limit that is used, and
// looks at a bounded number of keys.
func TestStatusHidesKeyedLogs(t *testing.T) {
	if testing.Short() {
		t.Skip("records 200,000 keys, 3 seconds")
	}
	ledger := memledger.Open(nil)
	day := quota.Sliding(24 * time.Hour)
	guard, err := quota.NewGuard(ledger, []quota.Budget{
		{Account: "p", Name: "all", Limit: 1000, Window: day, PerKey: true},
		{Account: "p", Name: "few", Limit: 10,
			Window: day, PerKey: true, Methods: []string{"channels.list"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spend := func(key, method string, units quota.Units) {
		t.Helper()
		if _, err := guard.Spend(t.Context(),
			quota.Call{Account: "p", Key: key, Method: method, Units: units}); err != nil {
			t.Fatal(err)
		}
	}
	keys := []quota.Call{{Account: "p", Key: "idle", Method: "videos.list"}}
	for i := range quota.MaxKeys + 5 {
		key := fmt.Sprintf("shop-%05d", i)
		keys = append(keys, quota.Call{Account: "p", Key: key, Method: "videos.list"})
		if i < 12 {
			spend(key, "videos.list", quota.Units(10*i+1))
		}
	}
	testledger.Fill(t, ledger, keys...)
	spend("shop-00003", "channels.list", 9) // nine tenths of a small budget
	r := &inspect.Report{}
	if err := r.ReadBudgets(t.Context(), guard, []string{"p"}); err != nil {
		t.Fatal(err)
	}
	if len(r.Keyed) != inspect.TopKeys || len(r.MoreKeys) != 1 {
		t.Fatalf("%d keys, more of %v; want ten, and more of p", len(r.Keyed), r.MoreKeys)
	}
	if first, second, last := r.Keyed[0], r.Keyed[1], r.Keyed[9]; first.Key != "shop-00003" || first.Budget != "few" ||
		first.Remaining != 1 || first.Share != 0.9 ||
		second.Key != "shop-00011" || second.Used != 111 || second.NextFreeAt == nil || last.Key != "shop-00002" {
		t.Errorf("%+v, %+v, %+v", first, second, last)
	}
	r.Keyed[1].Ahead = 3600
	if remarks := r.Remarks(); len(remarks) != 1 ||
		!strings.HasPrefix(remarks[0][0], "the newest entry of key shop-00011 is stamped 1h ahead") {
		t.Errorf("it says %q", remarks)
	}
}

// TestAShadowOnlyWouldRefuseByTheSchedule: status said of a shadow that it
// refuses calls.
func TestAShadowOnlyWouldRefuseByTheSchedule(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pace, over := 20.0, int64(3600)
	b := &usage.BudgetReport{Name: "tried", Measure: "units", PlanOutAt: new(now.Add(time.Hour))}
	for _, paced := range []bool{false, true} {
		if paced {
			b.RunsOutAt, b.PaceHour, b.PaceOver = new(now.Add(2*time.Hour)), &pace, &over
		}
		for shadow, want := range map[bool]string{true: " would refuse its first call at ",
			false: " refuses its first call at "} {
			b.Shadow = shadow
			if text := inspect.Forecast(b, now); !strings.Contains(text, want) {
				t.Errorf("%q; want %q", text, want)
			}
		}
	}
}

// TestBudgetsOfOneName: two accounts with a budget of one name were two rows
// that looked alike.
func TestBudgetsOfOneName(t *testing.T) {
	until, reason := time.Unix(100, 0), "closed"
	r := &inspect.Report{Budgets: []*usage.BudgetReport{{Account: "a", Name: "hour"},
		{Account: "b", Name: "hour", CooldownUntil: &until, CooldownReason: &reason}, {Account: "b", Name: "day"}}}
	var names []string
	for _, b := range r.Distinct().Budgets {
		names = append(names, b.Name)
	}
	if got, want := strings.Join(names, ", "), "hour of a, hour of b, day"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if text := fmt.Sprint(r.Distinct().Remarks()); !strings.Contains(text, "hour of b is in cooldown") {
		t.Errorf("%s; want the account of the cooldown", text)
	}
	if r.Budgets[0].Name != "hour" {
		t.Error("the report itself has changed")
	}
}
