// Package shadow says what budgets with shadow: true would have refused, by
// playing the log against them.
package shadow

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota/usage"
)

// Replay returns what the budget at an index of the client's table, a shadow,
// would have refused since its window began, given the ledger's time now.
func Replay(ctx context.Context, c *client.Client, index int, now time.Time) (plan.ReplayedBudget, error) {
	table := c.Table()
	in := plan.ReplayInput{Budgets: table.Budgets(), Price: table.Reprice(table)}
	return plan.ReplayShadow(ctx, c.Log(), in, index, now)
}

// Add adds to a budget's report what its replay found.
func Add(b *usage.BudgetReport, replayed *plan.ReplayedBudget) {
	b.WouldRefuse, b.WouldRefuseUnits = &replayed.Refused, &replayed.RefusedUnits
	if replayed.Refused > 0 {
		b.WouldRefuseAt = human.OptionalTime(replayed.Last)
	}
}
