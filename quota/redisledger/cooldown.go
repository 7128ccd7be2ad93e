package redisledger

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// SetCooldown implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	reason := textfmt.Cut(c.Reason, quota.MaxReason)
	if c.For > 0 {
		return l.cool(ctx, c.Account, c.Budget, int64((c.For-1)/time.Microsecond)+1, 0, reason)
	}
	if c.Until.Unix() > quota.MaxUnix { // what follows would overflow
		c.Until = time.Unix(quota.MaxUnix, 0)
	}
	return l.cool(ctx, c.Account, c.Budget, 0, min(max(1, decide.Ceil(c.Until)), 1<<53-1), reason)
}

// ClearCooldown implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) ClearCooldown(ctx context.Context, account, budget string) error {
	return l.cool(ctx, account, budget, 0, 0, "")
}

// Cooldowns implements quota.Ledger.
func (l *Ledger) Cooldowns(ctx context.Context, account string) ([]quota.Cooldown, error) {
	if err := (&quota.Batch{Account: account}).Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	cmd := redis.NewMapStringStringCmd(within, "hgetall", l.names(account, "").cooldowns)
	if err := l.process(within, cmd); err != nil {
		return nil, ended(ctx, l.failed(err, classify(err), false))
	}
	now, err := l.storeTime(within)
	if err != nil {
		return nil, ended(ctx, err)
	}
	fields, all := cmd.Val(), map[string]*quota.Cooldown{}
	for budget, packed := range fields {
		if strings.HasPrefix(budget, lengthOf) || len(packed) < 7 {
			continue
		}
		all[budget] = &quota.Cooldown{Account: account, Budget: budget, Until: decide.Time(value(packed[:7])), Reason: packed[7:],
			For: time.Duration(value(fields[lengthOf+budget])) * time.Microsecond}
	}
	return (&decide.Judge{Now: now}).ActiveCooldowns(maps.Values(all)), nil
}

// lengthOf begins the field of a cooldown's duration; see LENGTH in layout.lua.
const lengthOf = "\x00"

// cool sets a cooldown for a duration or until a time, in µs, or lifts it if
// both are 0.
func (l *Ledger) cool(ctx context.Context, account, budget string, duration, until int64, reason string) error {
	if err := (&quota.Batch{Account: account, Key: budget}).Check(); err != nil {
		return err
	}
	ctx, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: ctx}
	now, _ := l.clock(0)
	arg := number(number(nil, duration, 7), until, 7)
	n := l.names(account, "")
	_, err := op.run(&cooldownScript, []string{n.cooldowns, n.meta}, []any{string(arg), budget, reason, now})
	return err
}
