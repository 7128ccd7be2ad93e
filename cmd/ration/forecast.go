package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota/usage"
)

// scheduled returns regions.yaml, or nil if there is none.
func (a *app) scheduled(table *costs.Table) (*jobs.Config, error) {
	if _, err := a.configFile("regions.yaml"); as[*client.MissingFileError](err) {
		return nil, nil
	}
	return a.regions(table)
}

// planned returns when the schedule's calls will first be refused by each of the
// table's budgets. Without a regions.yaml, or without a log, it returns nil.
func (a *app) planned(ctx context.Context, c *client.Client) ([]time.Time, error) {
	table := c.Table()
	config, err := a.scheduled(table)
	if err != nil || config == nil {
		return nil, err
	}
	return plan.ForecastFrom(ctx, c.Guard(), table, config.Regions)
}

// addSchedule adds what the schedule says: who has the current passes, and when its
// first calls are refused.
func (a *app) addSchedule(ctx context.Context, c *client.Client, r *statusReport) error {
	config, err := a.scheduled(c.Table())
	if err != nil || config == nil {
		return err
	}
	if r.Passes, err = a.readPasses(ctx, c, config.Regions); err != nil {
		return err
	}
	times, err := a.planned(ctx, c)
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
