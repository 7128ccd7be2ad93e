package main

import (
	"context"
	"fmt"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/shadow"
	"github.com/ration-dev/ration/quota/usage"
)

// tryShadows sets what budgets that are shadows would have refused.
func (a *app) tryShadows(ctx context.Context, c *client.Client, r *statusReport) error {
	for i, b := range r.Budgets {
		if !b.Shadow {
			continue
		}
		replayed, err := shadow.Replay(ctx, c, i, r.At)
		if err != nil {
			return err
		}
		shadow.Add(b, &replayed)
	}
	return nil
}

// shadowText says what a shadow would have refused.
func (a *app) shadowText(b *usage.BudgetReport) string {
	text := human.Name(b.Name) + " is a shadow and refuses nothing"
	switch {
	case b.WouldRefuse == nil:
	case *b.WouldRefuse == 0:
		text += "; it would have refused no call in its window"
	default:
		text += fmt.Sprintf("; in its window it would have refused %s of %s, the last at %s", human.Count(*b.WouldRefuse, "call"),
			human.Count(*b.WouldRefuseUnits, "unit"), human.Time(*b.WouldRefuseAt))
	}
	return text
}
