// This file says what budgets with shadow: true would have refused, by
// playing the log against them.

package plan

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
)

// ClientShadow returns what the budget at an index of the client's table, a
// shadow, would have refused since its window began, given the ledger's time
// now.
func ClientShadow(ctx context.Context, c *client.Client, index int, now time.Time) (ReplayedBudget, error) {
	table := c.Table()
	in := ReplayInput{Budgets: table.Budgets(), Price: table.Reprice(table)}
	return ReplayShadow(ctx, c.Guard(), in, index, now)
}

// Foresee adds to the reports of a client's budgets when a call of the schedule
// of regions will first be refused, and what shadows would have refused.
// unplanned is why the first is missing.
func Foresee(ctx context.Context, c *client.Client, budgets []*usage.BudgetReport, regions []jobs.Region,
	now time.Time) (unplanned, err error) {
	times, unplanned := ForecastFrom(ctx, c.Guard(), c.Table(), regions)
	for i := range times {
		budgets[i].PlanOutAt = human.OptionalTime(times[i])
	}
	for i, b := range budgets {
		if !b.Shadow {
			continue
		}
		replayed, err := ClientShadow(ctx, c, i, now)
		if err != nil {
			return unplanned, err
		}
		b.WouldRefuse, b.WouldRefuseUnits = &replayed.Refused, &replayed.RefusedUnits
		if replayed.Refused > 0 {
			b.WouldRefuseAt = human.OptionalTime(replayed.Last)
		}
	}
	return unplanned, nil
}
