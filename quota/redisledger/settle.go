package redisledger

import (
	"context"
	"fmt"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Settle implements quota.Ledger. It completes even if ctx is done.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", quota.ErrBadCall, units, quota.MaxUnits)
	}
	return l.adjust(ctx, receipt, units, 1)
}

// Refund implements quota.Ledger. It completes even if ctx is done.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	return l.adjust(ctx, receipt, 0, 0)
}

// settlement is one run of settle.lua: a settle or a refund.
type settlement struct {
	names
	*accountCache
	receipt quota.Receipt
	units   quota.Units
	calls   int64
	scope   int
	ledger  *Ledger
}

func (l *Ledger) adjust(ctx context.Context, receipt quota.Receipt, units quota.Units, calls int64) error {
	if receipt.Account == "" || receipt.At.UnixMicro() < 1 || receipt.ID.Client >= 1<<48 {
		return nil // not an entry of a Redis ledger
	}
	ctx, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: ctx}
	c := settlement{names: l.names(receipt.Account, receipt.Key), accountCache: l.cache(receipt.Account), ledger: l, receipt: receipt,
		units: units, calls: calls, scope: scopeOf(receipt.Key)}
	for round := range maxRounds {
		if round > 0 || c.unknown() {
			if err := l.learn(op, receipt.Account, nil); err != nil {
				return err
			}
		}
		reply, err := c.send(op)
		if err != nil || reply == nil {
			return err
		}
		switch code := reply.number(); {
		case reply.bad:
			return l.failed(errMalformed, unknown, true)
		case code == answered:
			return nil
		case code == tooLate:
			return quota.ErrStays
		case code == dropped:
			return l.failed(errNoEntries, unknown, true)
		case code == logFull:
			return errFull
		case code != otherHead:
			return l.failed(errMalformed, unknown, true)
		}
	}
	return l.failed(errUnstable, down, op.doubt)
}

// send sends the settlement until it is answered. The reply is nil if there is
// nothing to change.
func (c *settlement) send(op *scriptRunner) (*reply, error) {
	for {
		keys, args, err := c.encode(op.doubt)
		if keys == nil {
			return nil, err
		}
		value, err := op.try(&settleScript, keys, args)
		if err == nil {
			return newReply(value), nil
		}
		if _, err = op.after(&settleScript, err); err != nil {
			return nil, err
		}
	}
}

// encode returns the keys and arguments by the account cache, or nil if there
// is nothing to change, or if it cannot be lowered. doubt says that an earlier
// try may have been run.
func (c *settlement) encode(doubt bool) (keys []string, args []any, err error) {
	r := &c.receipt
	what := number(number(nil, r.At.UnixMicro(), 7), int64(r.ID.Client), 6)
	what = number(number(what, int64(r.ID.Seq&(1<<32-1)), 4), int64(c.units), 4)
	what = append(number(number(what, c.calls, 1), quota.MaxSettle, 4), flag(c.scope))
	now, _ := c.ledger.clock(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	of := &c.scopes[c.scope]
	keys = append([]string{c.meta, c.log, c.meanwhile()}, of.sourceKeys(c.names)...)
	args = []any{c.accountCache.head, now, c.horizonArg(c.scope), string(what)}
	if r.Recorded != nil && !of.keeps {
		if err := decide.CheckLower(r.Recorded, c.units, quota.Units(c.calls)); err != nil {
			return nil, nil, err
		}
	}
	// Without what was recorded, or where only others' counts would fall, an entry
	// of the call is changed, and nothing else.
	onlyEntry := r.Recorded == nil
	if !onlyEntry && !r.Recorded.Shared {
		onlyEntry = decide.LowersOthers(r, epochOf(c.accountCache.head), c.units, quota.Units(c.calls))
	}
	if onlyEntry && of.keeps {
		return keys, args, nil
	} else if onlyEntry {
		return nil, nil, nil
	}
	if c.calls == 0 {
		keys = append(keys, c.slot(r.ID.Client))
	}
	was, counted := *r.Recorded, int64(1)
	if was.Refunded {
		was.Units, counted = 0, 0
	}
	unsure := byte(0)
	if doubt {
		unsure = dropped
	} else if was.Shared {
		unsure = tooLate
	}
	what = append(number(number(nil, int64(was.Units), 4), counted, 1), flagOf(of.keeps), unsure)
	return keys, append(args, string(what), label{was.Method, was.Caller}.pack()), nil
}
