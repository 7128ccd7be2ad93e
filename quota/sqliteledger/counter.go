package sqliteledger

import (
	"database/sql/driver"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// counter is the counter of one coverage and one counter window.
type counter struct {
	decide.Counter
	coverage *quota.Coverage
	key      string // of the coverage
	row      int64  // 0 before it is written
	asked    int64  // when it was last used, to the hour
	changed  bool
}

func (t *tx) loadCounter(g *log, row []driver.Value) {
	key := text(row[1])
	g.newest = max(g.newest, integer(row[7]))
	g.counters = append(g.counters, &counter{row: integer(row[0]), key: key, coverage: t.coverage(key), asked: integer(row[6]),
		Counter: decide.Counter{Length: integer(row[2]), Start: integer(row[3]), Present: integer(row[4]), Past: integer(row[5])}})
}

// counter returns the counter of a coverage and a length, and creates it
// if necessary.
func (t *tx) counter(g *log, coverage *quota.Coverage, length int64) *counter {
	c := g.findCounter(coverage, length)
	switch {
	case c == nil && t.cacheOnly:
		t.fail(errNotCached)
		return &counter{Counter: decide.Counter{Length: length}}
	case c == nil:
		c = &counter{coverage: coverage, key: coverage.Key(), Counter: decide.Counter{Length: length}, asked: t.now, changed: true}
		t.fillCounter(g, &c.Counter, coverage)
		g.counters = append(g.counters, c)
		t.rotate(g)
	case t.now-c.asked > hour && !t.cacheOnly:
		c.asked, c.changed = t.now, true
	}
	return c
}

// findCounter returns the counter of a coverage and a length, or nil.
func (g *log) findCounter(coverage *quota.Coverage, length int64) *counter {
	key := coverage.Key()
	for _, c := range g.counters {
		if c.Length == length && c.key == key {
			return c
		}
	}
	return nil
}

// fillCounter adds the entries to a counter. It goes back far enough for
// a clock that steps back from the newest entry, which another coverage
// may count.
func (t *tx) fillCounter(g *log, c *decide.Counter, coverage *quota.Coverage) {
	if g.id == 0 || g.all.newest.stamp == 0 {
		return
	}
	t.flush()
	labels := t.coveredLabels(coverage)
	t.query("list-compute", func(row []driver.Value) {
		c.Add(integer(row[0]), integer(row[1]))
	}, g.id, g.all.newest.stamp-decide.Retain(2*c.Length), coverage.Measure == quota.Calls, labels)
}

// rotateCounters drops the counters that are no longer in use. It returns the
// horizon that includes the others, which Settle adjusts by their entries. A
// log with only counters keeps no entries.
func (t *tx) rotateCounters(g *log, horizon int64) int64 {
	entries, inUse := horizon > 0, g.counters[:0]
	for _, c := range g.counters {
		if c.Idle(t.now) && decide.Stale(c.asked, 2*c.Length, t.now) {
			if c.row != 0 {
				t.exec("counter-drop", c.row)
			}
			g.changed = true // the row may have held the newest stamp
			continue
		}
		inUse = append(inUse, c)
		if entries {
			horizon = max(horizon, 2*c.Length)
		}
	}
	clear(g.counters[len(inUse):])
	g.counters = inUse
	return horizon
}

func (t *tx) saveCounter(g *log, c *counter) {
	switch {
	case !c.changed:
		return
	case c.row != 0:
		t.exec("counter-save", c.row, c.Start, c.Present, c.Past, c.asked, g.newest)
	default:
		if row := t.queryRow("counter-insert", g.id, c.key, c.Length, c.Start, c.Present, c.Past, c.asked, g.newest); row != nil {
			c.row = integer(row[0])
		}
	}
	c.changed = false
}

// addToCounters adds an entry to every counter that covers it, and reports
// whether any does.
func (g *log) addToCounters(stamp int64, e *entry) (counted bool) {
	for _, c := range g.counters {
		if c.coverage.Covers(e.method, e.caller) {
			c.Add(stamp, decide.Amount(c.coverage, e.units, e.calls))
			c.changed, counted = true, true
		}
	}
	return counted
}

// adjustCounters adjusts every counter that covers an entry by the difference
// between what it counted before and what it counts now.
func (g *log) adjustCounters(stamp int64, before, now *entry) {
	for _, c := range g.counters {
		if c.coverage.Covers(now.method, now.caller) {
			c.Adjust(stamp, decide.Amount(c.coverage, now.units, now.calls)-decide.Amount(c.coverage, before.units, before.calls))
			c.changed = true
		}
	}
}
