package sqliteledger

import (
	"context"

	"github.com/ration-dev/ration/quota/internal/decide"
)

// Restamp implements quota.Ledger.
func (l *Ledger) Restamp(ctx context.Context, account, key string) (int, error) {
	changed := int64(0)
	err := l.write(ctx, func(t *tx) {
		g := t.log(logName{account, key})
		if g.id != 0 {
			changed = t.restamp(g)
			t.save(g)
		}
		if key == "" {
			t.recool(g)
		}
	})
	if err != nil {
		return 0, err
	}
	return int(changed), nil
}

// recool shortens the cooldowns that were set while the clock was ahead.
func (t *tx) recool(g *log) {
	for budget, c := range g.cooldowns {
		if c, changed := decide.ShortenCooldown(*c, t.now); changed {
			t.exec("cooldown-shorten", g.name.account, budget, c.Until.UnixMicro())
			t.ledger.forget() // the logs of the account's keys know it too
		}
	}
}

// restamp gives the entries and the counts that are ahead of now a stamp that
// is not, and returns how many there were.
func (t *tx) restamp(g *log) int64 {
	entries := t.restampEntries(g)
	changed := entries
	for _, c := range g.counters {
		if entries > 0 {
			t.recountAll(g, c)
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
	g.refusing = false
	if g.name.key != "" {
		t.exec("idle-later", g.id, t.now+g.idleAfter())
	}
	return changed
}

// recountAll makes a counter say what the restamped entries say, unless it
// counts calls that have none: they came before entries were kept.
func (t *tx) recountAll(g *log, c *counter) {
	fresh := decide.Counter{Length: c.Length}
	t.count(g, &fresh, c.coverage)
	if fresh.Past+fresh.Present >= c.Past+c.Present {
		c.Counter = fresh
	} else {
		c.Restamp(t.now)
	}
}

// restampEntries moves the entries that are stamped ahead of now to the
// microseconds up to now, or right behind the one before them.
func (t *tx) restampEntries(g *log) int64 {
	row := t.one("entries-ahead", g.id, t.now)
	if row == nil || integer(row[0]) == 0 {
		return 0
	}
	n := integer(row[0])
	before := view{t, g.all}.before(t.now + 1).stamp
	before = max(before, t.now-n)
	if before+n == g.all.newest.stamp {
		return 0 // they are there already
	}
	t.exec("sums-ahead", g.id, t.now)
	t.exec("entries-aside", g.id, t.now)
	t.exec("entries-restamp", g.id, before)
	g.all.newest.stamp = before + n
	g.all.forget()
	for _, l := range g.lists {
		if l != g.all {
			t.fill(g, l)
		}
	}
	return n
}
