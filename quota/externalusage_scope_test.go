package quota_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestDailyExternalUsageSparesAMinuteBudget: a day's external usage counts
// only in the budgets that the upstream reported it for.
func TestDailyExternalUsageSparesAMinuteBudget(t *testing.T) {
	of := func(name string, window quota.Window, change func(*quota.Budget)) quota.Budget {
		b := quota.Budget{Account: account, Name: name, Limit: 2000, Window: window}
		if change != nil {
			change(&b)
		}
		return b
	}
	day, minute := quota.Daily(time.UTC), quota.Sliding(time.Minute)
	for _, c := range []struct {
		name      string
		day       func(*quota.Budget)
		other     quota.Budget
		own, used quota.Units // of the day's budget and the other's, for the call counts 10 units
	}{
		{"a minute", nil, of("other", minute, nil), 500, 10},
		{"an hour", nil, of("other", quota.Sliding(time.Hour), nil), 500, 10},
		{"just half as long", nil, of("other", quota.Sliding((25*time.Hour+31*time.Minute)/2), nil), 500, 10},
		{"longer than half", nil, of("other", quota.Sliding(13*time.Hour), nil), 500, 500},
		{"a month", nil, of("other", quota.Monthly(time.UTC), nil), 500, 500},
		{"calls are not units", nil, of("other", day, func(b *quota.Budget) { b.Measure = quota.Calls }), 500, 1},
		{"calls in flight", nil, of("other", quota.InFlight(time.Minute),
			func(b *quota.Budget) { b.Measure = quota.Calls }), 500, 0},
		{"calls in flight for long", func(b *quota.Budget) { b.Measure = quota.Calls },
			of("other", quota.InFlight(24*time.Hour), func(b *quota.Budget) { b.Measure = quota.Calls }), 500, 0},
		{"one method", nil, of("other", day, func(b *quota.Budget) { b.Methods = []string{"m"} }), 500, 10},
		{"all but one method", nil, of("other", day, func(b *quota.Budget) { b.Except = []string{"x"} }), 500, 10},
		{"a lane", nil, of("other", day, func(b *quota.Budget) { b.Lanes = []string{"cron"} }), 500, 0},
		{"a region", nil, of("other", day, func(b *quota.Budget) { b.Regions = []string{"IN"} }), 500, 0},
		{"of a method, all", func(b *quota.Budget) { b.Methods = []string{"m"} }, of("other", day, nil), 500, 500},
		{"of a method, all but it", func(b *quota.Budget) { b.Methods = []string{"m"} },
			of("other", day, func(b *quota.Budget) { b.Except = []string{"m"} }), 500, 0},
		{"of a method, all but another", func(b *quota.Budget) { b.Methods = []string{"m"} },
			of("other", day, func(b *quota.Budget) { b.Except = []string{"x"} }), 500, 500},
		{"of a method, that and another", func(b *quota.Budget) { b.Methods = []string{"m"} },
			of("other", day, func(b *quota.Budget) { b.Methods = []string{"m", "x"} }), 500, 500},
		{"of a method, another", func(b *quota.Budget) { b.Methods = []string{"m"} },
			of("other", day, func(b *quota.Budget) { b.Methods = []string{"x"} }), 500, 0},
		{"of a method, a minute of it", func(b *quota.Budget) { b.Methods = []string{"m"} },
			of("other", minute, func(b *quota.Budget) { b.Methods = []string{"m"} }), 500, 10},
		{"of all but one method, all but it", func(b *quota.Budget) { b.Except = []string{"x"} },
			of("other", day, func(b *quota.Budget) { b.Except = []string{"x"} }), 500, 500},
		{"of two methods but one, that one", func(b *quota.Budget) {
			b.Methods, b.Except = []string{"m", "x"},
				[]string{"x"}
		}, of("other", day, func(b *quota.Budget) { b.Methods = []string{"m"} }), 500, 500},
		{"of a lane is not known", func(b *quota.Budget) { b.Lanes = []string{"cron"} }, of("other", day, nil), 0, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			up, clock := newUpstream(t, nil), &ledgertest.Clock{}
			clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
			guard := newGuard(t, &memledger.Options{Now: clock.Now}, of("day", day, c.day), c.other)
			saying(up, guard, "day")(t, 1500)
			balances, err := guard.Balances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if open := balances[0].Open; open > 10 {
				t.Errorf("%d of the day may be given back; a note gives nothing back", open)
			}
			if balances[0].Used != c.own || balances[1].Used != c.used {
				t.Errorf("%d used of the day, %d of the other; want %d and %d", balances[0].Used, balances[1].Used,
					c.own, c.used)
			}
		})
	}
}

// TestCoveragesAreShared: only budgets whose others may be noted,
// and that this one does not count, make a coverage of its own.
func TestCoveragesAreShared(t *testing.T) {
	minute := budget("minute", 10, time.Minute)
	lane, region, calls, theirs := budget("a", 10, 24*time.Hour), budget("b", 10, 24*time.Hour),
		budget("c", 10, 24*time.Hour), budget("d", 10, 24*time.Hour)
	lane.Lanes, region.Regions, calls.Measure, theirs.Account = []string{"cron"}, []string{"IN"}, quota.Calls, "another"
	budgets := []quota.Budget{minute, lane, region, calls, theirs}
	for i := range budgets {
		b := &budgets[i]
		if got, want := b.CoverageAmong(budgets).Text(), b.Coverage().Text(); got != want {
			t.Errorf("%s: %q; want %q", b.Name, got, want)
		}
	}
	if got := budgets[0].CoverageAmong(append(budgets,
		budget("day", 10, 24*time.Hour))).Text(); got != `x"others: day"` {
		t.Errorf("beside a day: %q", got)
	}
}
