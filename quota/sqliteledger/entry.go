package sqliteledger

import (
	"database/sql/driver"
	"math"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// entry is one recorded call, or an addition to one.
type entry struct {
	units, calls int64
	kind         quota.EntryKind
	id           quota.ID
	method       string
	caller       quota.Caller
}

// add adds an entry to the log and to every list and counter that covers it. It
// returns the stamp.
func (t *tx) add(g *log, e *entry) int64 {
	if g.id == 0 {
		t.insertLog(g)
	}
	stamp := max(t.wall, g.newest+1)
	g.newest, g.refused = stamp, nil
	counted := g.addToCounters(stamp, e)
	if !g.keepsEntries() {
		g.changed = g.changed || !counted // the row of a counter has the stamp too
		return stamp
	}
	label := t.labelID(label{e.method, e.caller})
	g.sumsDue = g.sumsDue || stamp%sumsEvery == 0
	g.all.push(record{stamp, g.all.newest.total + e.units})
	t.entries = append(t.entries, g.id, stamp, g.all.newest.total, e.units, e.calls, label, int64(e.id.Client), int64(e.id.Seq), int64(e.kind))
	for _, l := range g.lists {
		if l != g.all && l.coverage.Covers(e.method, e.caller) {
			l.push(record{stamp, l.newest.total + decide.Amount(l.coverage, e.units, e.calls)})
			t.records = append(t.records, l.id, stamp, l.newest.total)
		}
	}
	return stamp
}

// trim deletes from all lists of a log what no window can see.
func (t *tx) trim(g *log) {
	if len(g.unused) > 0 {
		l := g.unused[0]
		if t.exec("record-trim", l.id, int64(math.MaxInt64), int64(trimChunk)) < trimChunk {
			t.exec("list-drop", l.row)
			g.unused = g.unused[1:]
		}
	}
	if !g.keepsEntries() {
		t.trimEntries(g)
		return
	}
	for _, l := range g.lists {
		horizon := l.use.Horizon()
		if l == g.all {
			horizon = g.horizon
		}
		view{t, l}.trim(horizon)
	}
}

// trimEntries deletes the entries of a log that no longer keeps any.
func (t *tx) trimEntries(g *log) {
	if g.all.newest.stamp == 0 {
		return
	}
	end := t.now - decide.Retain(0) + 1
	trimmed := t.exec("entry-trim", g.id, end, int64(trimChunk))
	t.exec("sums-trim", g.id)
	if trimmed < trimChunk && g.all.newest.stamp < end {
		g.all.newest = record{}
		g.all.dropCache()
	}
}

// insertLog inserts a log and its lists.
func (t *tx) insertLog(g *log) {
	var due driver.Value
	if g.name.key != "" {
		t.sweepIdle()
		due = t.now + g.idleAfter()
	}
	g.epoch, g.refused = quota.NewEpoch(), nil
	if row := t.queryRow("log-insert", g.name.account, g.name.key, g.horizon, due, int64(g.epoch)); row != nil {
		g.id = integer(row[0])
	}
	g.all.id = g.id
	for _, l := range g.lists {
		if l != g.all {
			t.insertList(g, l)
		}
	}
}

// sweepIdle deletes some of the logs of keys that are idle.
func (t *tx) sweepIdle() {
	const atOnce = 4
	type idle struct{ log, due int64 }
	var found []idle
	t.query("idle", func(row []driver.Value) {
		after := idleAfter(integer(row[1]), integer(row[3]))
		if remembers := integer(row[4]) != 0; remembers {
			after = max(after, decide.ClientMemory)
		}
		found = append(found, idle{integer(row[0]), integer(row[2]) + after})
	}, t.now, int64(atOnce))
	for _, g := range found {
		if g.due >= t.now {
			t.exec("idle-later", g.log, g.due)
			continue
		}
		for _, drop := range []string{"drop-records", "drop-lists", "drop-counters", "drop-clients", "drop-sums", "drop-entries", "drop-log"} {
			t.exec(drop, g.log)
		}
		for name, known := range t.ledger.logs {
			if known.id == g.log {
				delete(t.ledger.logs, name)
			}
		}
	}
}
