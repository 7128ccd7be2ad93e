package quota

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Cooldown is a pause that the upstream or an operator has asked for. While it
// is in force, all calls of its account or budget are refused, or those of one
// key.
type Cooldown struct {
	Account string
	Budget  string // empty for the whole account
	Key     string // the only key that it stops; empty for all

	// For is how long the cooldown lasts, from the time on the ledger's clock
	// at which it is set. If it is 0 or less, Until applies instead. It is 0 in
	// a cooldown that a ledger returns.
	For time.Duration
	// Until is when the cooldown ends, on the ledger's clock; at most the year
	// 9999.
	Until time.Time

	Reason string // for people, usually the upstream's words; truncated to MaxReason bytes

	repeats int64 // how often in succession it was asked for; 0 if that does not matter
}

// Cool sets a cooldown, which refuses calls in all processes that share
// the ledger.
func (g *Guard) Cool(ctx context.Context, cooldown Cooldown) error {
	defer g.refusals.invalidate()
	return opError("cooldown", g.log.SetCooldown(context.WithoutCancel(ctx), cooldown))
}

// ClearCooldown clears the cooldown of a budget or, if budget is empty, of the
// whole account. ClearKeyCooldown clears that of one of its keys.
func (g *Guard) ClearCooldown(ctx context.Context, account, budget string) error {
	return g.ClearKeyCooldown(ctx, account, budget, "")
}

// ClearKeyCooldown clears the cooldown that stops a key alone.
func (g *Guard) ClearKeyCooldown(ctx context.Context, account, budget, key string) error {
	defer g.refusals.invalidate()
	return opError("clear cooldown", g.log.account(account).EndCooldown(ctx, budget, key))
}

// Cooldowns returns the cooldowns of an account that are in force, and the time
// on the ledger's clock. The first is that of the whole account, if any; those
// of its budgets follow in the guard's order, except those that end before that
// of the account; then come those of single keys, the one that ends last first.
func (g *Guard) Cooldowns(ctx context.Context, account string) (now time.Time, cooldowns []Cooldown, err error) {
	names := []string{""}
	for _, b := range g.accounts[account] {
		names = append(names, b.charge.Budget)
	}
	var standings []WindowUsage
	var all []Cooldown
	err = g.log.account(account).View(ctx, func(v *engine.View) {
		for _, r := range v.Cooldowns() {
			all = append(all, *cooldownOf(account, r))
		}
	})
	if err == nil {
		standings, err = g.cooldownStandings(ctx, account, "", names...)
	}
	if err != nil {
		return now, nil, opError("cooldowns of "+account, err)
	}
	for i, s := range standings {
		if s.Cooldown != nil && s.Cooldown.Budget == names[i] {
			cooldowns = append(cooldowns, *s.Cooldown)
		}
	}
	for _, c := range slices.Backward(all) {
		if c.Key != "" {
			cooldowns = append(cooldowns, c)
		}
	}
	return standings[0].At, cooldowns, nil
}

// cooldownStandings returns standings of a log with its time and the cooldowns
// of budgets. An empty name stands for the account. A budget's standing has the
// cooldown of the account if that ends later than its own.
func (g *Guard) cooldownStandings(ctx context.Context, account, key string, budgets ...string) ([]WindowUsage, error) {
	everything := newCoverage(Coverage{})
	charges := make([]*Charge, len(budgets))
	for i, name := range budgets {
		charges[i] = &Charge{Budget: name, Coverage: everything, Limit: 1, Window: Sliding(time.Minute)}
	}
	return g.log.WindowUsages(ctx, account, key, charges)
}
