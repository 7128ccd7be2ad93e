package sqliteledger

import (
	"context"
	"math"

	"github.com/ration-dev/ration/quota/internal/decide"
)

// Restamp implements quota.Ledger.
func (l *Ledger) Restamp(ctx context.Context, account, key string) (int, error) {
	changed := int64(0)
	err := l.write(ctx, func(t *tx) {
		t.trustClock() // an entry at the present time is not ahead, whether or not that is in doubt
		g := t.log(logName{account, key})
		if g.id != 0 {
			changed = t.restamp(g)
			t.save(g)
		}
		if key == "" {
			t.shortenCooldowns(g)
		}
	})
	if err != nil {
		return 0, err
	}
	return int(changed), nil
}

// shortenCooldowns shortens the cooldowns that were set while the clock
// was ahead.
func (t *tx) shortenCooldowns(g *log) {
	for budget, c := range g.cooldowns {
		if c, changed := decide.ShortenCooldown(*c, t.now); changed {
			t.exec("cooldown-shorten", g.name.account, budget, c.Until.UnixMicro())
			t.ledger.dropCache() // the logs of the account's keys have the cooldown too
		}
	}
}

// restamp moves the entries and counts that are stamped after now to stamps up
// to now and returns their number.
func (t *tx) restamp(g *log) int64 {
	entries := t.restampEntries(g)
	changed := entries
	for _, c := range g.counters {
		if entries > 0 {
			t.refillCounter(g, c)
		} else if c.Restamp(t.now) {
			changed++
		}
		c.asked, c.changed = min(c.asked, t.now), true // the newest stamp too
	}
	for _, l := range g.lists {
		l.use.Since, l.changed = min(l.use.Since, t.now), true
	}
	g.history.use.Since, g.history.changed = min(g.history.use.Since, t.now), true
	g.newest, g.changed = min(g.newest, max(t.now, g.all.newest.stamp)), true
	g.refused = nil
	if g.name.key != "" {
		t.exec("idle-later", g.id, t.now+g.idleAfter())
	}
	return changed
}

// refillCounter computes a counter from the restamped entries, unless it also
// counts calls from before the log kept entries.
func (t *tx) refillCounter(g *log, c *counter) {
	fresh := decide.Counter{Length: c.Length}
	t.fillCounter(g, &fresh, c.coverage)
	if fresh.Past+fresh.Present >= c.Past+c.Present {
		c.Counter = fresh
	} else {
		c.Restamp(t.now)
	}
}

// restampEntries moves the entries that are stamped after now to the
// microseconds up to now, or right after the entry before them.
func (t *tx) restampEntries(g *log) int64 {
	row := t.queryRow("entries-ahead", g.id, t.now)
	if row == nil || integer(row[0]) == 0 {
		return 0
	}
	n := integer(row[0])
	before := view{t, g.all}.before(t.now + 1).stamp
	before = max(before, t.now-n)
	if before+n == g.all.newest.stamp {
		return 0 // they have these stamps already
	}
	t.exec("sums-ahead", g.id, t.now)
	t.exec("entries-aside", g.id, t.now)
	t.exec("entries-restamp", g.id, before)
	g.all.newest.stamp = before + n
	t.rebase(g)
	g.all.dropCache()
	for _, l := range g.lists {
		if l != g.all {
			t.fill(g, l)
		}
	}
	return n
}

// rebase makes the totals of a log begin with its oldest entry. A clock that
// was far ahead may have deleted the record whose total a window subtracts.
func (t *tx) rebase(g *log) {
	oldest := view{t, g.all}.after(math.MinInt64)
	if row := t.queryRow("entry", g.id, oldest.stamp); row != nil {
		t.adjust(g.all, oldest.stamp, integer(row[0])-oldest.total)
	}
}
