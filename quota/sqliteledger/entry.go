package sqliteledger

import (
	"database/sql/driver"
	"math"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// entry is one recorded call, or what was added to one.
type entry struct {
	units, calls int64
	kind         quota.EntryKind
	id           quota.ID
	method       string
	caller       quota.Caller
}

// add records an entry in the log and in every list and counter that covers
// it, and returns its stamp.
func (t *tx) add(g *log, e *entry) int64 {
	if g.id == 0 {
		t.make(g)
	}
	stamp := max(t.now, g.newest+1)
	g.newest = stamp
	fed := g.feed(stamp, e)
	if !g.keeps() {
		g.changed = g.changed || !fed // a counter writes the stamp too
		return stamp
	}
	label := t.label(label{e.method, e.caller})
	g.sumsDue = g.sumsDue || stamp%sumsEvery == 0
	g.all.push(point{stamp, g.all.newest.total + e.units})
	t.entries = append(t.entries, g.id, stamp, g.all.newest.total, e.units, e.calls, label, int64(e.id.Client), int64(e.id.Seq), int64(e.kind))
	for _, l := range g.lists {
		if l != g.all && l.coverage.Covers(e.method, e.caller) {
			l.push(point{stamp, l.newest.total + amount(l.coverage, e.units, e.calls)})
			t.records = append(t.records, l.id, stamp, l.newest.total)
		}
	}
	return stamp
}

// trim deletes from all lists of a log what no window can see any more.
func (t *tx) trim(g *log) {
	if len(g.unused) > 0 {
		l := g.unused[0]
		if t.exec("record-trim", l.id, int64(math.MaxInt64), int64(trimChunk)) < trimChunk {
			t.exec("list-drop", l.row)
			g.unused = g.unused[1:]
		}
	}
	if !g.keeps() {
		t.trimAll(g)
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

// trimAll deletes the entries of a log that keeps none any more, to the last.
func (t *tx) trimAll(g *log) {
	if g.all.newest.stamp == 0 {
		return
	}
	end := t.now - decide.Retain(0) + 1
	trimmed := t.exec("entry-trim", g.id, end, int64(trimChunk))
	t.exec("sums-trim", g.id)
	if trimmed < trimChunk && g.all.newest.stamp < end {
		g.all.newest = point{}
		g.all.forget()
	}
}

// make writes a log that is not there yet, and what was asked of it.
func (t *tx) make(g *log) {
	var due driver.Value
	if g.name.key != "" {
		t.sweepIdle()
		due = t.now + g.idleAfter()
	}
	if row := t.one("log-insert", g.name.account, g.name.key, g.horizon, due); row != nil {
		g.id = integer(row[0])
	}
	g.all.id = g.id
	for _, l := range g.lists {
		if l != g.all {
			t.addList(g, l)
		}
	}
}

// clientMemory is for how long the last batch of each client is remembered.
const clientMemory = int64(10 * time.Minute / time.Microsecond)

// sweepIdle deletes some of the keys' logs that have been idle for twice as
// long as anything in them matters.
func (t *tx) sweepIdle() {
	const atOnce = 4
	type idle struct{ log, due int64 }
	var found []idle
	t.each("idle", func(row []driver.Value) {
		after := idleAfter(integer(row[1]), integer(row[3]))
		if remembers := integer(row[4]) != 0; remembers {
			after = max(after, clientMemory)
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
