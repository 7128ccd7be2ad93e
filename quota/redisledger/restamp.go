package redisledger

import (
	"context"

	"github.com/ration-dev/ration/quota"
)

// Restamp implements quota.Ledger, page by page: each is one step, so that a
// long log never stops the spending. It goes on until nothing is stamped ahead.
func (l *Ledger) Restamp(ctx context.Context, account, key string) (int, error) {
	if err := (&quota.Batch{Account: account, Key: key}).Check(); err != nil {
		return 0, err
	}
	all := 0
	for {
		changed, more, err := l.restamp(ctx, account, key)
		all += changed
		if err != nil {
			return all, err
		}
		if more == 0 {
			break
		}
	}
	if key != "" {
		return all, nil
	}
	return all, l.recool(ctx, account)
}

// recool shortens the cooldowns that were set while the clock was ahead.
func (l *Ledger) recool(ctx context.Context, account string) error {
	ctx, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: ctx}
	now, _ := l.clock(0)
	_, err := op.run(&recoolScript, []string{l.names(account, "").cooldowns}, []any{now})
	return err
}

// restamp restamps one page, and returns how many entries were changed and how
// many are still ahead.
func (l *Ledger) restamp(ctx context.Context, name, key string) (changed, more int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, context.Cause(ctx)
	}
	within, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	op, n := &scriptRunner{ledger: l, ctx: within}, l.names(name, key)
	now, _ := l.clock(0)
	reply, err := l.inform(op, name, func(a *accountCache) (*script, []string, []any) {
		scope := scopeOf(key)
		of, keeps := &a.scopes[scope], int64(0)
		if of.keeps {
			keeps = 1
		}
		what := number(number([]byte{flag(scope)}, keeps, 1), pageSize, 4)
		return &restampScript, append([]string{n.meta, n.log, n.meanwhile()}, of.sourceKeys(n)...), []any{a.head, now, string(what)}
	})
	if err != nil {
		return 0, 0, err
	}
	changed, more = int(reply.number()), int(reply.number())
	if reply.bad {
		return 0, 0, l.failed(errMalformed, config, op.doubt)
	}
	return changed, more, nil
}
