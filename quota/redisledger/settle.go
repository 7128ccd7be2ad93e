package redisledger

import (
	"context"
	"fmt"

	"github.com/ration-dev/ration/quota"
)

// Settle implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", quota.ErrBadCall, units, quota.MaxUnits)
	}
	return l.correct(ctx, receipt, units, 1)
}

// Refund implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	return l.correct(ctx, receipt, 0, 0)
}

func (l *Ledger) correct(ctx context.Context, receipt quota.Receipt, units quota.Units, calls int64) error {
	stamp := receipt.At.UnixMicro()
	if receipt.Account == "" || stamp < 1 || receipt.ID.Client >= 1<<48 {
		return nil // no entry of ours
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &operation{ledger: l, ctx: ctx}
	what := number(number(nil, stamp, 7), int64(receipt.ID.Client), 6)
	what = number(number(what, int64(receipt.ID.Seq&(1<<32-1)), 4), int64(units), 4)
	what = number(number(what, calls, 1), quota.MaxSettle, 4)
	a, n := l.account(receipt.Account), l.names(receipt.Account, receipt.Key)
	for round := range maxRounds {
		if round > 0 || a.unknown() {
			if err := l.learn(op, receipt.Account, nil); err != nil {
				return err
			}
		}
		now, _ := l.clock(0)
		a.mu.Lock()
		head := a.head
		keys := append([]string{n.meta, n.log}, a.sourceKeys(n)...)
		args := []any{head, now, a.horizonArg(receipt.Key), string(what)}
		a.mu.Unlock()
		reply, err := op.ask(&settleScript, keys, args)
		if err != nil {
			return err
		}
		switch code := reply.number(); {
		case reply.bad || code > logFull:
			return l.failed(errGarbled, unknown, true)
		case code == answered:
			return nil
		case code == tooLate:
			return quota.ErrStays
		case code == logFull:
			return errFull
		}
	}
	return l.failed(errForgets, down, op.doubt)
}

// unknown reports whether nothing is known of the account, or it was never learned.
func (a *account) unknown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head == ""
}

// sourceKeys returns the keys of all items in a log.
func (a *account) sourceKeys(n names) []string {
	keys := make([]string, len(a.items))
	for i := range a.items {
		keys[i] = n.source(a.items[i].id)
	}
	return keys
}
