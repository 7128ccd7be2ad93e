package alert

import (
	"context"
	"fmt"
	"slices"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// cooldownEvent returns the event of a cooldown.
func cooldownEvent(c *quota.Cooldown) *event {
	return &event{Kind: costs.AlertCooldown, Account: c.Account, Budget: c.Budget, Until: &c.Until,
		name: fmt.Sprintf("cooldown %s %d", c.Budget, c.Until.Unix()/3600),
		detail: fmt.Sprintf("%s is in cooldown until %s: %s", human.Scope(c.Account, c.Budget, c.Key),
			human.Time(c.Until), c.Reason)}
}

// sendCooldown sends a cooldown: the first one, and those that end in a later
// hour before it is over.
func (w *Watch) sendCooldown(ctx context.Context, e *event) {
	first := *e
	first.name = coolingName(e.Budget)
	isNew := false
	for i, target := range w.targets[e.Account] {
		name := nameOf(fmt.Sprintf("%s %d %d", first.name, 0, i))
		state, err := w.client.Guard().Account(e.Account).ClaimState(ctx, name)
		isFirst := err == nil && state.Done.IsZero()
		if isFirst && slices.Contains(target.On, e.Kind) {
			isNew = true
			if claim, err := w.claim(ctx, e, target, fmt.Sprintf("%s %d %d", e.name, 0, i)); err == nil {
				_ = claim.Done(ctx) // at worst it is sent twice
			}
		}
	}
	if isNew {
		e = &first
	}
	w.claimAndSend(ctx, e)
}

func coolingName(budget string) string { return "cooling " + budget }

// sendCooldownEnds sends that the cooldown of a budget, or of the account, is
// over. The balances are of one account.
func (w *Watch) sendCooldownEnds(ctx context.Context, balances []quota.Balance) {
	var ended []string
	for i := range balances {
		if balances[i].Cooldown == nil {
			ended = append(ended, balances[i].Budget.Name)
		}
	}
	if len(ended) > 0 { // a cooldown of the account would be that of each budget, too
		ended = append(ended, "")
	}
	for _, budget := range ended {
		account := balances[0].Budget.Account
		w.over(ctx, &event{Kind: costs.AlertCooldown, Account: account, Budget: budget, name: coolingName(budget),
			detail: fmt.Sprintf("the cooldown of %s is over", human.Scope(account, budget, ""))})
	}
}
