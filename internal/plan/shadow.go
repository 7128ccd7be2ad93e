// This file says what budgets with shadow: true would have refused, by
// playing the log against them.

package plan

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
)

// ClientShadow returns what the budget at an index of the client's table, a
// shadow, would have refused since its window began, given the ledger's time
// now.
func ClientShadow(ctx context.Context, c *client.Client, index int, now time.Time) (ReplayedBudget, error) {
	table := c.Table()
	in := ReplayInput{Budgets: table.Budgets(), Price: table.Reprice(table)}
	return ReplayShadow(ctx, c.Guard(), in, index, now)
}

// AddShadow adds to a budget's report what its replay found.
func AddShadow(b *usage.BudgetReport, replayed *ReplayedBudget) {
	b.WouldRefuse, b.WouldRefuseUnits = &replayed.Refused, &replayed.RefusedUnits
	if replayed.Refused > 0 {
		b.WouldRefuseAt = human.OptionalTime(replayed.Last)
	}
}
