package quota

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
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
	return opError("cooldown", g.setCooldown(context.WithoutCancel(ctx), &cooldown))
}

// ClearCooldown clears the cooldown of a budget or, if budget is empty, of the
// whole account. ClearKeyCooldown clears that of one of its keys.
func (g *Guard) ClearCooldown(ctx context.Context, account, budget string) error {
	return g.ClearKeyCooldown(ctx, account, budget, "")
}

// ClearKeyCooldown clears the cooldown that stops a key alone.
func (g *Guard) ClearKeyCooldown(ctx context.Context, account, budget, key string) error {
	defer g.refusals.invalidate()
	return opError("clear cooldown", g.Account(account).EndCooldown(ctx, budget, key))
}

// Cooldowns returns the cooldowns of an account that are in force, and the time
// on the ledger's clock. The first is that of the whole account, if any; those
// of its budgets follow in the guard's order, except those that end before that
// of the account; then come those of single keys, the one that ends last first.
func (g *Guard) Cooldowns(ctx context.Context, account string) (now time.Time, cooldowns []Cooldown, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) {
		now = ledgerTime(v.Now())
		names := []string{""}
		for _, b := range g.accounts[account] {
			names = append(names, b.Name)
		}
		for _, name := range names {
			if c := cooldownIn(v, account, name, ""); c != nil && c.Budget == name {
				cooldowns = append(cooldowns, *c)
			}
		}
		for _, r := range slices.Backward(v.Cooldowns()) {
			if r.Labels.Key != "" {
				cooldowns = append(cooldowns, *cooldownOf(account, r))
			}
		}
	})
	return now, cooldowns, opError("cooldowns of "+account, err)
}

// stopped is when a log was read, and which cooldown was in force then, if any.
type stopped struct {
	at       time.Time
	ahead    time.Duration // of the newest timestamp, if that is much
	cooldown *Cooldown
}

// stopped reads the cooldown in force for a budget, or for the account if that
// is empty.
func (g *Guard) stopped(ctx context.Context, account, budget, key string) (s stopped, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) {
		s = stopped{ledgerTime(v.Now()), micros(v.Ahead()), cooldownIn(v, account, budget, key)}
	})
	return s, err
}

// cooldownIn returns the cooldown in force for a budget: its own, or that of
// the account if that ends later.
func cooldownIn(v *engine.View, account, budget, key string) *Cooldown {
	own, isOwn := v.Cooldown(budget, key)
	all, isAll := v.Cooldown("", key)
	switch {
	case isAll && (!isOwn || all.Until > own.Until):
		return cooldownOf(account, all)
	case isOwn:
		return cooldownOf(account, own)
	}
	return nil
}

func cooldownOf(account string, r engine.Record) *Cooldown {
	return &Cooldown{Account: account, Budget: r.Name, Key: r.Labels.Key, Until: ledgerTime(r.Until), Reason: r.Text}
}

func (g *Guard) setCooldown(ctx context.Context, c *Cooldown) error {
	if err := engine.CheckKey(c.Key); err != nil {
		return err
	}
	length := min(c.For, math.MaxInt64-time.Microsecond) + time.Microsecond - time.Nanosecond
	until := int64(human.MaxUnix * 1_000_000)
	if c.Until.Unix() < human.MaxUnix {
		until = microsOf(c.Until)
	}
	return g.Account(c.Account).Cool(ctx, c.Budget, c.Key, length.Microseconds(), until, c.repeats,
		human.Cut(c.Reason, MaxReason))
}
