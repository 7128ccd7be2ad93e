package sqliteledger

import (
	"context"
	"fmt"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units", quota.ErrBadCall, units)
	}
	return l.correct(ctx, receipt, int64(units), 1)
}

// Refund implements quota.Ledger.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	return l.correct(ctx, receipt, 0, 0)
}

func (l *Ledger) correct(ctx context.Context, receipt quota.Receipt, units, calls int64) error {
	stays := false
	err := l.write(ctx, func(t *tx) {
		stays = !t.correct(t.log(logName{receipt.Account, receipt.Key}), receipt, units, calls)
	})
	if err == nil && stays {
		return quota.ErrStays
	}
	return err
}

// correct changes the entry of a receipt, and reports false when it must stay.
func (t *tx) correct(g *log, receipt quota.Receipt, units, calls int64) bool {
	stamp := receipt.At.UnixMicro()
	if g.id() == 0 || !g.holds(stamp) {
		return true // it has left the log, and with it every window
	}
	row := t.one("entry", g.id(), stamp)
	if row == nil || uint64(integer(row[2])) != receipt.ID.Client || uint64(integer(row[3])) != receipt.ID.Seq {
		return true
	}
	oldUnits, oldCalls := integer(row[0]), integer(row[1])
	e := entry{units: units - oldUnits, id: receipt.ID, method: text(row[5]),
		caller: quota.Caller{Lane: text(row[6]), Job: text(row[7]), Region: text(row[8])}}
	if units == oldUnits && calls == oldCalls {
		return true
	}
	if row := t.one("entry-newer", g.id(), stamp, int64(quota.MaxSettle+1)); row != nil && integer(row[0]) > quota.MaxSettle {
		if e.units < 0 || calls < oldCalls {
			return false
		}
		if e.units > 0 {
			t.add(g, e)
		}
		return true
	}
	t.exec("entry-settle", g.id(), stamp, units, calls)
	for _, l := range g.lists {
		if l.coverage.Covers(e.method, e.caller) {
			t.shift(l, stamp, amount(l.coverage, units, calls)-amount(l.coverage, oldUnits, oldCalls))
		}
	}
	return true
}

// shift adds delta to all totals from a stamp on.
func (t *tx) shift(l *list, stamp, delta int64) {
	if delta == 0 {
		return
	}
	t.exec(l.kind+"-shift", l.id, stamp, delta)
	l.shift(stamp, delta)
}

// holds reports whether an entry of that stamp belongs to the log still: older
// ones wait for their trimming.
func (g *log) holds(stamp int64) bool { return stamp > g.floor() }

func (g *log) floor() int64 { return g.all.newest.stamp - decide.Retain(g.all.horizon) }

// SetCooldown implements quota.Ledger.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	if err := (&quota.Batch{Account: c.Account, Key: c.Budget}).Check(); err != nil {
		return err
	}
	c = decide.Cooled(c)
	return l.write(ctx, func(t *tx) {
		t.exec("cooldown-sweep", c.Account, t.now-hour)
		t.exec("cooldown-set", c.Account, c.Budget, c.Until.UnixMicro(), c.Reason)
		l.forget()
	})
}

// ClearCooldown implements quota.Ledger.
func (l *Ledger) ClearCooldown(ctx context.Context, account, budget string) error {
	return l.write(ctx, func(t *tx) {
		t.exec("cooldown-clear", account, budget)
		l.forget()
	})
}
