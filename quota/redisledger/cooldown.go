package redisledger

import (
	"context"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// SetCooldown implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	reason := c.Reason
	if len(reason) > quota.MaxReason {
		reason = strings.ToValidUTF8(reason[:quota.MaxReason], "")
	}
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

// cool sets a cooldown for a duration or until a time, in µs, or lifts it if both are 0.
func (l *Ledger) cool(ctx context.Context, account, budget string, duration, until int64, reason string) error {
	if err := (&quota.Batch{Account: account, Key: budget}).Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: ctx}
	now, _ := l.clock(0)
	arg := number(number(nil, duration, 7), until, 7)
	n := l.names(account, "")
	_, err := op.run(&cooldownScript, []string{n.cooldowns, n.meta}, []any{string(arg), budget, reason, now})
	return err
}
