package plan_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestAPlansForecastIsWhatComes: the schedule's calls are spent at their
// ticks on the real ledger after a forecast. Each budget's first refusal must
// be the one that was forecast, or within 5 % of its time where a long log was
// read by sums.
func TestAPlansForecastIsWhatComes(t *testing.T) {
	regions := parse(t,
		"schedule: 7,37 * * * *\nfetch: [categories, {search: {queries: [q]}}]\nregions: {US: {}, IN: {schedule: 20 "+
			"* * * *}}\n")
	forecasts := 0
	rapid.Check(t, func(d *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 20, 3, 30, 0, 0, time.UTC))
		ledger := open(clock.Now)
		defer ledger.Close()
		budgets := []quota.Budget{
			{Account: "my-project", Name: "sliding", Limit: quota.Units(rapid.IntRange(200, 9000).Draw(d, "limit")),
				Window: quota.Sliding(24 * time.Hour)},
			{Account: "my-project", Name: "day", Limit: quota.Units(rapid.IntRange(200, 9000).Draw(d, "day")),
				Window: quota.Daily(zone(t, "America/Los_Angeles"))},
			{Account: "my-project", Name: "searches", Limit: quota.Units(rapid.IntRange(1, 90).Draw(d, "searches")),
				Measure: quota.Calls, Methods: []string{"search.list"}, Window: quota.Sliding(24 * time.Hour)},
		}
		guard, err := quota.NewGuard(ledger, budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		long := rapid.IntRange(0, 9).Draw(d, "long") == 0
		fillLog(d, guard, clock, long)
		from, state, err := plan.ReadOutline(t.Context(), guard)
		if err != nil {
			t.Fatal(err)
		}
		in := &plan.Input{Regions: regions, Budgets: budgets, Price: prices,
			Open: open, State: state, From: from}
		times, err := plan.Forecast(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		truth := refusedAtTicks(d, guard, clock, in)
		earliest, first := time.Time{}, time.Time{}
		for i, b := range budgets {
			got, want := times[i], truth[b.Name]
			if !got.Equal(want) && !long {
				d.Errorf("%s: forecast %s, refused %s", b.Name, got, want)
			}
			if earliest.IsZero() || !got.IsZero() && got.Before(earliest) {
				earliest = got
			}
			if first.IsZero() || !want.IsZero() && want.Before(first) {
				first = want
			}
			if !got.IsZero() {
				forecasts++
			}
		}
		// what is refused first changes what comes later
		if off := earliest.Sub(first).Abs(); off > 0 && off > first.Sub(from)/20+30*time.Minute {
			d.Errorf("forecast %s, refused %s", earliest, first)
		}
	})
	if forecasts == 0 {
		t.Error("no budget ran out")
	}
}

// fillLog spends what a log holds before a forecast.
func fillLog(d *rapid.T, guard *quota.Guard, clock *ledgertest.Clock, long bool) {
	n, step := rapid.IntRange(0, 40).Draw(d, "entries"), 30*time.Minute
	if long {
		n, step = 25_000, 2*time.Second
	}
	for i := range n {
		call, _ := prices("videos.list")
		if i%500 == 7 {
			call, _ = prices("search.list")
		}
		call.Caller.Region = []string{"US", "IN", ""}[i%3]
		_, _ = guard.Spend(d.Context(), call)
		clock.Add(step)
	}
}

// refusedAtTicks spends the schedule's calls at their ticks, and returns when
// each budget first refused one.
func refusedAtTicks(d *rapid.T, guard *quota.Guard, clock *ledgertest.Clock, in *plan.Input) map[string]time.Time {
	first := map[string]time.Time{}
	end, spent := in.From.Add(plan.ForecastTime), time.Duration(0)
	for tick := in.From; tick.Before(end); {
		next := end
		for i := range in.Regions {
			r := &in.Regions[i]
			if at := r.Schedule.Next(tick.Add(-1)); at.Equal(tick) {
				for _, s := range r.Steps {
					call, _ := prices(s.Calls()[0].Method)
					call.Caller = quota.Caller{Lane: "cron", Job: s.Name(), Region: r.Name}
					spent += time.Microsecond // later than what leaves its window at this tick
					clock.Set(tick.Add(spent))
					_, err := guard.Spend(d.Context(), call)
					if refused, ok := errors.AsType[*quota.RefusedError](err); ok && first[refused.Budget].IsZero() {
						first[refused.Budget] = tick
					}
				}
			}
			if at := r.Schedule.Next(tick); at.Before(next) {
				next = at
			}
		}
		tick = next
	}
	return first
}

// TestForecastByTheLimitInForce: a forecast took the limit of this costs.yaml
// while a lower one of another held, and went through a cooldown.
func TestForecastByTheLimitInForce(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 3, 30, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	defer ledger.Close()
	regions := parse(t, "schedule: 0 * * * *\nfetch: [{search: {queries: [q]}}]\nregions: {US: {}}\n")
	const text = "version: 1\nupstream: youtube\naccount: p\ncosts: {search.list: 100}\nbudgets: [{name: day, " +
		"limit: 100000, window: 24h}]\n"
	table, err := costs.Parse("costs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	own, lower := table.Budgets(), table.Budgets()
	own[0].Config.Name, lower[0].Config.Name = "own", "other"
	lower[0].Limit = 500
	guard, err := quota.NewGuard(ledger, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := quota.NewGuard(ledger, lower, nil)
	if err != nil {
		t.Fatal(err)
	}
	forecast := func() time.Time {
		times, err := plan.ForecastFrom(t.Context(), guard, table, regions)
		if err != nil {
			t.Fatal(err)
		}
		return times[0]
	}
	if at := forecast(); !at.IsZero() {
		t.Errorf("a refusal at %s by a limit that lasts", at)
	}
	if _, err := other.Spend(t.Context(), quota.Call{Account: "p", Method: "search.list", Units: 100}); err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Second)
	if at, want := forecast(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC); !at.Equal(want) {
		t.Errorf("the first refusal at %s; want %s, by the limit in force", at, want)
	}
	if err := guard.Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Hour, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if at := forecast(); !at.IsZero() {
		t.Errorf("a refusal at %s, through a cooldown", at)
	}
}
