package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota/usage"
)

// addSchedule adds what the schedule says: who has the current passes, and when its
// first calls are refused.
func (a *app) addSchedule(ctx context.Context, c *client.Client, r *statusReport) error {
	regions, err := a.setup().Schedule(c.Table())
	if err != nil || regions == nil {
		return err
	}
	if r.Passes, err = a.readPasses(ctx, c, regions); err != nil {
		return err
	}
	times, err := plan.ForecastFrom(ctx, c.Guard(), c.Table(), regions)
	for i := range times {
		if !times[i].IsZero() {
			r.Budgets[i].PlanOutAt = new(human.JSONTime(times[i]))
		}
	}
	return err
}

// forecastText says when a budget runs out, or "".
func forecastText(b *usage.BudgetReport, now time.Time) string {
	when := func(t time.Time) string {
		return fmt.Sprintf("%s (in %s)", dated(roundUp(t).UTC(), now, tableTime), human.Duration(t.Sub(now)))
	}
	text := ""
	if b.RunsOutAt != nil && b.RunsOutAt.After(now) {
		text = fmt.Sprintf("%s runs out at %s at the pace of the last %s, %.0f %s an hour", human.Name(b.Name), when(*b.RunsOutAt),
			human.Duration(time.Duration(*b.PaceOver)*time.Second), *b.PaceHour, b.Measure)
	}
	refuses := "refuses"
	if b.Shadow {
		refuses = "would refuse"
	}
	switch {
	case b.PlanOutAt == nil:
	case text == "":
		text = fmt.Sprintf("by the schedule, %s %s its first call at %s", human.Name(b.Name), refuses, when(*b.PlanOutAt))
	default:
		text += fmt.Sprintf("; by the schedule it %s its first call at %s", refuses, when(*b.PlanOutAt))
	}
	return text
}
