package sqliteledger

import (
	"database/sql/driver"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

type logName struct{ account, key string }

// log is the cache of one log.
type log struct {
	name      logName
	id        int64            // 0 before the log is written
	epoch     uint64           // chosen when the log is written
	newest    int64            // the newest stamp, even of an entry that was not kept
	horizon   int64            // how far back entries are kept
	changed   bool             // newest and horizon have not been written
	all       *list            // the units of all calls; its records are the entries
	history   *list            // the use of Batch.History; it has no records
	lists     map[string]*list // by coverage, including all
	unused    []*list          // no longer in use; their records are deleted in steps
	counters  []*counter
	cooldowns map[string]*quota.Cooldown
	clients   map[uint64]*lastBatch // nil for a client that has none
	refused   *quota.Receipt        // of the last refusal; nil if there was none since the newest entry
	sumsDue   bool                  // a block of sums must be added
}

// historyKey is the key of log.history, where other lists have that of
// a coverage.
const historyKey = "history"

// keepsEntries reports whether the log keeps entries: it does not if it is only
// asked counter windows.
func (g *log) keepsEntries() bool { return g.horizon > 0 || len(g.counters) == 0 }

// idleAfter returns how long after its newest stamp a log is idle: nothing in
// it matters, even if the clock steps back.
func idleAfter(horizon, longestCounter int64) int64 {
	return 2 * max(horizon, 2*longestCounter, int64(time.Minute/time.Microsecond))
}

func (g *log) idleAfter() int64 {
	longest := int64(0)
	for _, c := range g.counters {
		longest = max(longest, c.Length)
	}
	return idleAfter(g.horizon, longest)
}

// log returns a log from the cache, or reads it. A log that does not exist has
// the id 0.
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
	g := &log{name: name, cooldowns: map[string]*quota.Cooldown{}, clients: map[uint64]*lastBatch{}}
	g.all, g.history = &list{coverage: quota.NewCoverage(quota.Coverage{}), kind: "entry"}, &list{key: historyKey}
	g.lists = map[string]*list{"": g.all}
	if row := t.queryRow("log", name.account, name.key); row != nil {
		g.id = integer(row[0])
		g.horizon = integer(row[1])
		g.epoch = uint64(integer(row[5]))
		g.all.newest = record{integer(row[3]), integer(row[4])}
		g.newest, g.all.id = max(integer(row[2]), g.all.newest.stamp), g.id
		t.query("lists", func(row []driver.Value) { t.loadList(g, row) }, g.id)
		t.query("counters", func(row []driver.Value) { t.loadCounter(g, row) }, g.id)
	}
	t.query("cooldowns", func(row []driver.Value) {
		c := &quota.Cooldown{Account: name.account, Budget: text(row[0]), Until: decide.Time(integer(row[1])), Reason: text(row[2]),
			For: time.Duration(integer(row[3])) * time.Microsecond}
		g.cooldowns[c.Budget] = c
	}, name.account)
	return g
}

// loadList adds a row of the table lists to a log.
func (t *tx) loadList(g *log, row []driver.Value) {
	id, key := integer(row[0]), text(row[1])
	use := decide.RecentHorizon{Since: integer(row[2]), Asked: integer(row[3]), Before: integer(row[4])}
	switch {
	case key == "":
		g.all.row, g.all.use = id, use
		return
	case key == historyKey:
		g.history.row, g.history.use = id, use
		return
	}
	l := &list{kind: "record", key: key, id: id, row: id, use: use, newest: record{integer(row[5]), integer(row[6])}}
	if use.Horizon() == 0 {
		g.unused = append(g.unused, l)
		return
	}
	l.coverage = t.coverage(key)
	g.lists[key] = l
}

// coverage parses the key of a coverage.
func (t *tx) coverage(key string) *quota.Coverage {
	coverage, err := parseCoverage(key)
	if err != nil {
		t.fail(t.ledger.misconfigured(err.Error(), "restore it from a copy"))
	}
	return coverage
}

// txLog is a log in a transaction.
type txLog struct {
	*tx
	of *log
}

var _ decide.Log = (*txLog)(nil)

// List implements decide.Log.
func (b *txLog) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		return &b.counter(b.of, coverage, window.Length().Microseconds()).Counter
	}
	return view{b.tx, b.list(b.of, coverage, window.Horizon().Microseconds())}
}

// Cooldown implements decide.Log.
func (b *txLog) Cooldown(budget string) *quota.Cooldown { return b.of.cooldowns[budget] }

// Newest implements decide.Log.
func (b *txLog) Newest() int64 { return b.of.newest }

func (t *tx) judge(name logName) *decide.Judge {
	now := t.now
	if name.key != "" { // it limits a client of this host, by this host's clock
		now = t.wall
	}
	return &decide.Judge{Account: name.account, Key: name.key, Now: now, Days: t.ledger.days}
}

// list returns the list of a coverage, and keeps it back to a horizon from
// now on. A list that is new, or that a longer window asks for, is filled
// from the entries.
func (t *tx) list(g *log, coverage *quota.Coverage, horizon int64) *list {
	key := coverage.Key()
	l := g.lists[key]
	if t.cacheOnly {
		if l == nil || l.use.Horizon() < horizon {
			t.fail(errNotCached)
			return g.all
		}
		return l
	}
	if l == nil {
		l = &list{coverage: coverage, key: key, kind: "record"}
		g.lists[key] = l
		g.unused = slices.DeleteFunc(g.unused, func(l *list) bool { return l.key == key }) // insertList reuses its row
	}
	short := l.use.Horizon() < horizon
	if !l.use.Record(horizon, t.now) {
		return l
	}
	l.changed = true
	if short && l != g.all && g.id != 0 {
		t.fill(g, l)
	}
	t.rotate(g)
	return l
}

// recordHistory records how long a batch wants the log to keep its entries.
func (t *tx) recordHistory(g *log, history time.Duration) {
	if history > 0 && g.history.use.Record(history.Microseconds(), t.now) {
		g.history.changed = true
		t.rotate(g)
	}
}

// fill computes the records of a list from the entries.
func (t *tx) fill(g *log, l *list) {
	t.flush()
	t.insertList(g, l)
	t.exec("list-clear", l.id)
	t.exec("list-fill", l.id, g.id, l.coverage.Measure == quota.Calls, t.coveredLabels(l.coverage))
	l.dropCache()
	l.newest = record{}
	if row := t.queryRow("list-newest", l.id); row != nil {
		l.newest = record{integer(row[0]), integer(row[1])}
	}
}

// insertList inserts the row of a list.
func (t *tx) insertList(g *log, l *list) {
	if row := t.queryRow("list-insert", g.id, l.key, l.use.Since, l.use.Asked, l.use.Before); row != nil {
		l.row, l.changed = integer(row[0]), false
	}
	if l.kind == "record" {
		l.id = l.row
	}
}

// rotate drops the lists and counters that are no longer in use and computes
// how far back the entries must reach.
func (t *tx) rotate(g *log) {
	horizon := max(g.all.rotate(t.now), g.history.rotate(t.now))
	for key, l := range g.lists {
		inUse := l.rotate(t.now)
		if l != g.all && inUse == 0 {
			delete(g.lists, key)
			if l.row != 0 {
				g.unused = append(g.unused, l)
			}
		}
		horizon = max(horizon, inUse)
	}
	if horizon = t.rotateCounters(g, horizon); horizon != g.horizon {
		kept := g.keepsEntries()
		g.horizon = horizon
		g.changed = true
		g.all.trimAt = 0
		if g.newest > 0 && !kept && g.keepsEntries() { // those from now on
			s := t.statements(g)
			s.Kept = decide.Time(g.newest)
			t.exec("heard-set", g.id, string(s.Format()), int64(g.epoch))
		}
	}
}

// save writes what has changed in a log except its entries. It does not create
// a log, because nothing was granted.
func (t *tx) save(g *log) {
	if g.id == 0 {
		return
	}
	if g.changed {
		t.exec("log-save", g.id, g.horizon, g.newest)
		g.changed = false
	}
	t.saveUse(g, g.history)
	for _, l := range g.lists {
		t.saveUse(g, l)
	}
	for _, l := range g.unused {
		t.saveUse(g, l)
	}
	for _, c := range g.counters {
		t.saveCounter(g, c)
	}
}

// saveUse writes the use of a list.
func (t *tx) saveUse(g *log, l *list) {
	switch {
	case !l.changed:
	case l.row == 0:
		t.insertList(g, l)
	default:
		t.exec("list-save", l.row, l.use.Since, l.use.Asked, l.use.Before)
		l.changed = false
	}
}

func (t *tx) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}
