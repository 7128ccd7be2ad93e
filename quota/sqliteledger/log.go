package sqliteledger

import (
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

type logName struct{ account, key string }

// log is what is known of one log while the file's version stands.
type log struct {
	name      logName
	all       *list            // the log itself: the units of all calls
	lists     map[string]*list // by coverage, all included
	cooldowns map[string]*quota.Cooldown
	clients   map[uint64]*batchMemory // nil for one that is not remembered
	refusing  bool                    // the last batch was refused, all of it
}

func (g *log) id() int64 { return g.all.id }

// log returns what is known of a log; one that is not there yet has an id of 0.
func (t *tx) log(name logName) *log {
	if g := t.ledger.logs[name]; g != nil {
		return g
	}
	g := t.load(name)
	if len(t.ledger.logs) >= 1024 {
		clear(t.ledger.logs)
	}
	t.ledger.logs[name] = g
	return g
}

func (t *tx) load(name logName) *log {
	g := &log{name: name, all: &list{coverage: quota.NewCoverage(quota.Coverage{}), kind: "entry"},
		cooldowns: map[string]*quota.Cooldown{}, clients: map[uint64]*batchMemory{}}
	g.lists = map[string]*list{"": g.all}
	if name.key == "" {
		g.all.horizon = decide.Kept
	}
	if row := t.one("log", name.account, name.key); row != nil {
		g.all.id, g.all.horizon = integer(row[0]), integer(row[1])
		g.all.newest = point{integer(row[2]), integer(row[3])}
		t.each("lists", func(row []driver.Value) {
			coverage, err := parseCoverage(text(row[1]))
			if err != nil {
				t.fail(t.ledger.misconfigured(err.Error(), "restore it from a copy"))
				return
			}
			g.lists[coverage.Key()] = &list{coverage: coverage, kind: "record", id: integer(row[0]), horizon: integer(row[2]),
				newest: point{integer(row[3]), integer(row[4])}}
		}, g.id())
	}
	t.each("cooldowns", func(row []driver.Value) {
		c := &quota.Cooldown{Account: name.account, Budget: text(row[0]), Until: decide.Instant(integer(row[1])), Reason: text(row[2])}
		g.cooldowns[c.Budget] = c
	}, name.account)
	return g
}

// book is a log in one transaction.
type book struct {
	*tx
	of *log
}

// List implements decide.Log.
func (b book) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	return view{b.tx, b.list(b.of, coverage, window.Horizon().Microseconds())}
}

// Cooldown implements decide.Log.
func (b book) Cooldown(budget string) *quota.Cooldown { return b.of.cooldowns[budget] }

func (t *tx) judge(name logName) *decide.Judge {
	return &decide.Judge{Account: name.account, Key: name.key, Now: t.now, Days: t.ledger.days}
}

// list returns the list of a coverage. A new one, or one that a longer window
// now asks, is filled from the log.
func (t *tx) list(g *log, coverage *quota.Coverage, horizon int64) *list {
	key := coverage.Key()
	l := g.lists[key]
	if l != nil && l.horizon >= horizon {
		return l
	}
	if t.fromMemory {
		t.fail(errUnknown)
		return g.all
	}
	if g.all.horizon < horizon {
		g.all.horizon, g.all.trimAt = horizon, 0
		if g.id() != 0 {
			t.exec("log-horizon", g.id(), horizon)
		}
	}
	if l == g.all {
		return l
	}
	l = &list{coverage: coverage, kind: "record", horizon: horizon}
	g.lists[key] = l
	if g.id() != 0 {
		t.fill(g, l)
	}
	return l
}

// fill writes a list from the log.
func (t *tx) fill(g *log, l *list) {
	t.flush()
	t.addList(g, l)
	t.exec("list-clear", l.id)
	t.exec("list-fill", l.id, g.id(), l.coverage.Measure == quota.Calls, t.covered(l.coverage))
	if row := t.one("list-newest", l.id); row != nil {
		l.newest = point{integer(row[0]), integer(row[1])}
	}
}

func (t *tx) addList(g *log, l *list) {
	if row := t.one("list-insert", g.id(), l.coverage.Key(), l.horizon); row != nil {
		l.id = integer(row[0])
	}
}

// make writes a log that is not there yet, and the lists asked of it.
func (t *tx) make(g *log) {
	var due driver.Value
	if g.name.key != "" {
		t.sweepIdle()
		due = t.now + 2*g.all.horizon
	}
	if row := t.one("log-insert", g.name.account, g.name.key, g.all.horizon, due); row != nil {
		g.all.id = integer(row[0])
	}
	for _, l := range g.lists {
		if l != g.all {
			t.addList(g, l)
		}
	}
}

// entry is one recorded call, or what was added to one.
type entry struct {
	units, calls int64
	id           quota.ID
	method       string
	caller       quota.Caller
}

// add records an entry in the log and in every list that covers it, and
// returns its stamp.
func (t *tx) add(g *log, e entry) int64 {
	if g.id() == 0 {
		t.make(g)
	}
	stamp := max(t.now, g.all.newest.stamp+1)
	label := t.label(label{e.method, e.caller})
	g.all.newest = point{stamp, g.all.newest.total + e.units}
	t.entries = append(t.entries, g.id(), stamp, g.all.newest.total, e.units, e.calls, label, int64(e.id.Client), int64(e.id.Seq))
	for _, l := range g.lists {
		if l != g.all && l.coverage.Covers(e.method, e.caller) {
			l.newest = point{stamp, l.newest.total + amount(l.coverage, e.units, e.calls)}
			t.records = append(t.records, l.id, stamp, l.newest.total)
		}
	}
	return stamp
}

// trim deletes from all lists of a log what no window can see any more.
func (t *tx) trim(g *log) {
	for _, l := range g.lists {
		view{t, l}.trim()
	}
}

type label struct {
	method string
	caller quota.Caller
}

// known is a label's id, and when it was last said to be in use.
type known struct{ id, used int64 }

// Labels and clients that are no longer used are looked for now and then.
const (
	hour       = int64(time.Hour / time.Microsecond)
	sweepEvery = 256
	maxClients = 4096 // remembered for each log
)

func (t *tx) label(name label) int64 {
	have, ok := t.ledger.labels[name]
	if !ok {
		have = t.findLabel(name)
	}
	if t.now-have.used > hour {
		have.used = t.now
		t.exec("label-touch", have.id, t.now)
	} else if ok {
		return have.id
	}
	if len(t.ledger.labels) >= 4096 {
		clear(t.ledger.labels)
	}
	t.ledger.labels[name] = have
	return have.id
}

func (t *tx) findLabel(name label) known {
	args := []driver.Value{name.method, name.caller.Lane, name.caller.Job, name.caller.Region}
	if row := t.one("label", args...); row != nil {
		return known{integer(row[0]), integer(row[1])}
	}
	have := known{used: t.now}
	if row := t.one("label-insert", append(args, t.now)...); row != nil {
		have.id = integer(row[0])
	}
	if have.id%sweepEvery == 0 {
		t.exec("label-sweep", t.now-24*hour)
		clear(t.ledger.labels)
	}
	return have
}

// covered returns the ids of the labels that a coverage covers, as a JSON array.
func (t *tx) covered(coverage *quota.Coverage) string {
	ids := []byte{'['}
	t.each("labels", func(row []driver.Value) {
		caller := quota.Caller{Lane: text(row[2]), Job: text(row[3]), Region: text(row[4])}
		if coverage.Covers(text(row[1]), caller) {
			if len(ids) > 1 {
				ids = append(ids, ',')
			}
			ids = strconv.AppendInt(ids, integer(row[0]), 10)
		}
	})
	return string(append(ids, ']'))
}

// sweepIdle deletes some of the keys' logs that have been idle for twice as
// long as anything in them matters.
func (t *tx) sweepIdle() {
	const atOnce = 4
	type idle struct{ log, horizon, newest int64 }
	var found []idle
	t.each("idle", func(row []driver.Value) {
		found = append(found, idle{integer(row[0]), integer(row[1]), integer(row[2])})
	}, t.now, int64(atOnce))
	for _, g := range found {
		if due := g.newest + 2*g.horizon; due >= t.now {
			t.exec("idle-later", g.log, due)
			continue
		}
		for _, drop := range []string{"drop-records", "drop-lists", "drop-clients", "drop-entries", "drop-log"} {
			t.exec(drop, g.log)
		}
		for name, known := range t.ledger.logs {
			if known.id() == g.log {
				delete(t.ledger.logs, name)
			}
		}
	}
}

func (t *tx) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}
