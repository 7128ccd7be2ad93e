package sqliteledger

import (
	"database/sql/driver"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

type logName struct{ account, key string }

// log is what is known of one log while the file's version stands.
type log struct {
	name      logName
	id        int64            // 0 before it is written
	newest    int64            // the newest stamp, of an entry that is kept or not
	horizon   int64            // how far back the entries matter: to the lists and counters, and for the history
	changed   bool             // newest and horizon are to be written
	all       *list            // the log itself: the units of all calls
	history   *list            // how long entries are to be listed; it has no records
	lists     map[string]*list // by coverage, all included
	unused    []*list          // no longer in use; their records are deleted step by step
	counters  []*counter
	cooldowns map[string]*quota.Cooldown
	clients   map[uint64]*batchMemory // nil for one that is not remembered
	refusing  bool                    // the last batch was refused, all of it
	sumsDue   bool                    // another block of sums is to be added
}

// historyKey stands where lists have the key of a coverage.
const historyKey = "history"

// keeps reports whether entries are kept: unless all that is asked of the log
// is counters.
func (g *log) keeps() bool { return g.horizon > 0 || len(g.counters) == 0 }

// idleAfter returns how long after the newest stamp nothing in the log matters
// any more, and will not if the clock steps back.
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
	g := &log{name: name, cooldowns: map[string]*quota.Cooldown{}, clients: map[uint64]*batchMemory{}}
	g.all, g.history = &list{coverage: quota.NewCoverage(quota.Coverage{}), kind: "entry"}, &list{key: historyKey}
	g.lists = map[string]*list{"": g.all}
	if row := t.one("log", name.account, name.key); row != nil {
		g.id, g.horizon, g.all.newest = integer(row[0]), integer(row[1]), point{integer(row[3]), integer(row[4])}
		g.newest, g.all.id = max(integer(row[2]), g.all.newest.stamp), g.id
		t.each("lists", func(row []driver.Value) { t.loadList(g, row) }, g.id)
		t.each("counters", func(row []driver.Value) { t.loadCounter(g, row) }, g.id)
	}
	t.each("cooldowns", func(row []driver.Value) {
		c := &quota.Cooldown{Account: name.account, Budget: text(row[0]), Until: decide.Instant(integer(row[1])), Reason: text(row[2]),
			For: time.Duration(integer(row[3])) * time.Microsecond}
		g.cooldowns[c.Budget] = c
	}, name.account)
	return g
}

// loadList adds a row of lists to a log.
func (t *tx) loadList(g *log, row []driver.Value) {
	id, key := integer(row[0]), text(row[1])
	use := decide.Use{Since: integer(row[2]), Asked: integer(row[3]), Before: integer(row[4])}
	switch {
	case key == "":
		g.all.row, g.all.use = id, use
		return
	case key == historyKey:
		g.history.row, g.history.use = id, use
		return
	}
	l := &list{kind: "record", key: key, id: id, row: id, use: use, newest: point{integer(row[5]), integer(row[6])}}
	if use.Horizon() == 0 {
		g.unused = append(g.unused, l)
		return
	}
	l.coverage = t.coverage(key)
	g.lists[key] = l
}

// coverage reads a coverage from its key.
func (t *tx) coverage(key string) *quota.Coverage {
	coverage, err := parseCoverage(key)
	if err != nil {
		t.fail(t.ledger.misconfigured(err.Error(), "restore it from a copy"))
	}
	return coverage
}

// book is a log in one transaction.
type book struct {
	*tx
	of *log
}

var _ decide.Log = (*book)(nil)

// List implements decide.Log.
func (b *book) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		return &b.counter(b.of, coverage, window.Length().Microseconds()).Counter
	}
	return view{b.tx, b.list(b.of, coverage, window.Horizon().Microseconds())}
}

// Cooldown implements decide.Log.
func (b *book) Cooldown(budget string) *quota.Cooldown { return b.of.cooldowns[budget] }

// Newest implements decide.Log.
func (b *book) Newest() int64 { return b.of.newest }

func (t *tx) judge(name logName) *decide.Judge {
	return &decide.Judge{Account: name.account, Key: name.key, Now: t.now, Days: t.ledger.days}
}

// list returns the list of a coverage, which reaches back by a horizon from now
// on. A new one, or one that a longer window now asks, is filled from the log.
func (t *tx) list(g *log, coverage *quota.Coverage, horizon int64) *list {
	key := coverage.Key()
	l := g.lists[key]
	if t.fromMemory {
		if l == nil || l.use.Horizon() < horizon {
			t.fail(errUnknown)
			return g.all
		}
		return l
	}
	if l == nil {
		l = &list{coverage: coverage, key: key, kind: "record"}
		g.lists[key] = l
		g.unused = slices.DeleteFunc(g.unused, func(l *list) bool { return l.key == key }) // it has the same row
	}
	short := l.use.Horizon() < horizon
	if !l.use.Record(horizon, t.now) {
		return l
	}
	l.changed = true
	if short && l != g.all && g.id != 0 {
		t.fill(g, l)
	}
	t.turn(g)
	return l
}

// askHistory notes for how long the log's entries are to be listed.
func (t *tx) askHistory(g *log, history time.Duration) {
	if history > 0 && g.history.use.Record(history.Microseconds(), t.now) {
		g.history.changed = true
		t.turn(g)
	}
}

// fill writes a list from the log.
func (t *tx) fill(g *log, l *list) {
	t.flush()
	t.addList(g, l)
	t.exec("list-clear", l.id)
	t.exec("list-fill", l.id, g.id, l.coverage.Measure == quota.Calls, t.covered(l.coverage))
	l.forget()
	if row := t.one("list-newest", l.id); row != nil {
		l.newest = point{integer(row[0]), integer(row[1])}
	}
}

// addList writes the row of a list.
func (t *tx) addList(g *log, l *list) {
	if row := t.one("list-insert", g.id, l.key, l.use.Since, l.use.Asked, l.use.Before); row != nil {
		l.row, l.changed = integer(row[0]), false
	}
	if l.kind == "record" {
		l.id = l.row
	}
}

// turn finds out how far back the entries must reach, and which lists and
// counters are no longer in use.
func (t *tx) turn(g *log) {
	horizon := max(g.all.turn(t.now), g.history.turn(t.now))
	for key, l := range g.lists {
		inUse := l.turn(t.now)
		if l != g.all && inUse == 0 {
			delete(g.lists, key)
			if l.row != 0 {
				g.unused = append(g.unused, l)
			}
		}
		horizon = max(horizon, inUse)
	}
	if horizon = t.turnCounters(g, horizon); horizon != g.horizon {
		g.horizon, g.changed, g.all.trimAt = horizon, true, 0
	}
}

// save writes what has changed of a log beside its entries. A log that is not
// there yet stays away: nothing was granted.
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

// saveUse writes how far back a list was asked.
func (t *tx) saveUse(g *log, l *list) {
	switch {
	case !l.changed:
	case l.row == 0:
		t.addList(g, l)
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
