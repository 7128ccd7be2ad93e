package sqliteledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units", quota.ErrBadCall, units)
	}
	return l.settle(ctx, receipt, int64(units), 1)
}

// Refund implements quota.Ledger.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	return l.settle(ctx, receipt, 0, 0)
}

func (l *Ledger) settle(ctx context.Context, receipt quota.Receipt, units, calls int64) error {
	var stays error
	err := l.write(ctx, func(t *tx) {
		g := t.log(logName{receipt.Account, receipt.Key})
		stays = t.settle(g, receipt, units, calls)
		t.save(g)
	})
	return cmp.Or(err, stays)
}

// settle changes the entry of a receipt. It returns an ErrStays if that cannot
// be lowered.
func (t *tx) settle(g *log, receipt quota.Receipt, units, calls int64) error {
	stamp := receipt.At.UnixMicro()
	before, found := t.findEntry(g, receipt.ID, stamp)
	if !found {
		was := receipt.Recorded
		if was == nil || g.id == 0 || t.keptAt(g, receipt.At) {
			return nil
		}
		err := decide.CheckLower(was, quota.Units(units), quota.Units(calls))
		if err != nil || decide.LowersOthers(&receipt, g.epoch, quota.Units(units), quota.Units(calls)) {
			return err
		}
		if calls == 0 {
			t.forgetGrant(g, receipt.ID, stamp)
		}
		g.adjustCounters(stamp, recordedEntry(was), &entry{units: units, calls: calls, method: was.Method, caller: was.Caller})
		return nil
	}
	now := before
	now.units = units
	now.calls = calls
	now.kind = quota.EntryCall
	if calls == 0 {
		now.kind = quota.EntryRefunded
	}
	if now == before {
		return nil
	}
	if row := t.queryRow("entry-newer", g.id, stamp, int64(quota.MaxSettle+1)); row != nil && integer(row[0]) > quota.MaxSettle {
		if now.units < before.units || now.calls < before.calls {
			return quota.ErrStays
		}
		if now.units > before.units {
			now.units -= before.units
			now.calls, now.kind = 0, quota.EntryAddition
			t.add(g, &now)
		}
		return nil
	}
	t.exec("entry-settle", g.id, stamp, now.units, now.calls, int64(now.kind))
	for _, l := range g.lists {
		if l.coverage.Covers(now.method, now.caller) {
			t.adjust(l, stamp, decide.Amount(l.coverage, now.units, now.calls)-decide.Amount(l.coverage, before.units, before.calls))
		}
	}
	g.adjustCounters(stamp, &before, &now)
	return nil
}

// findEntry returns the entry with an id and a stamp, if it is in the log.
func (t *tx) findEntry(g *log, id quota.ID, stamp int64) (e entry, ok bool) {
	if g.id == 0 || !g.contains(stamp) {
		return entry{}, false
	}
	row := t.queryRow("entry", g.id, stamp)
	if row == nil || uint64(integer(row[2])) != id.Client || uint64(integer(row[3])) != id.Seq {
		return entry{}, false
	}
	return entry{units: integer(row[0]), calls: integer(row[1]), kind: quota.EntryKind(integer(row[4])), id: id, method: text(row[5]),
		caller: quota.Caller{Lane: text(row[6]), Job: text(row[7]), Region: text(row[8])}}, true
}

// recordedEntry returns what a receipt says was recorded.
func recordedEntry(was *quota.Recorded) *entry {
	e := &entry{units: int64(was.Units), calls: 1}
	if was.Refunded {
		e.calls = 0
	}
	return e
}

// adjust adds delta to the totals of a list at and after a stamp.
func (t *tx) adjust(l *list, stamp, delta int64) {
	if delta == 0 {
		return
	}
	t.exec(l.kind+"-shift", l.id, stamp, delta)
	l.adjust(stamp, delta)
}

// keptAt reports whether the log has kept the entries with a timestamp since.
func (t *tx) keptAt(g *log, at time.Time) bool {
	return g.keepsEntries() && at.After(t.statements(g).Kept)
}

// contains reports whether entries with a stamp belong to the log. Older ones
// have not been trimmed yet.
func (g *log) contains(stamp int64) bool { return stamp > g.floor() }

func (g *log) floor() int64 { return g.all.newest.stamp - decide.Retain(g.horizon) }

// SetCooldown implements quota.Ledger.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	if err := (&quota.Batch{Account: c.Account, Key: c.Budget}).Check(); err != nil {
		return err
	}
	return l.write(ctx, func(t *tx) {
		t.exec("cooldown-sweep", c.Account, t.now-hour)
		all := []quota.Cooldown{decide.StartCooldown(c, t.wall)}
		if c.Budget == "" {
			name := logName{c.Account, ""}
			all = t.judge(name).Displace(t.load(name).cooldowns[""], all[0])
		}
		for _, kept := range all {
			t.exec("cooldown-set", c.Account, kept.Budget, kept.Until.UnixMicro(), kept.Reason, int64((kept.For+time.Microsecond-1)/time.Microsecond), t.wall)
		}
		l.dropCache()
	})
}

// ClearCooldown implements quota.Ledger.
func (l *Ledger) ClearCooldown(ctx context.Context, account, budget string) error {
	return l.write(ctx, func(t *tx) {
		t.exec("cooldown-clear", account, budget)
		l.dropCache()
	})
}
