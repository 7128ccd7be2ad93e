package memledger

import (
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// log is all calls of one account, or of one key of it.
type log struct {
	decide.Judge
	newest    int64       // the newest stamp, of an entry that is kept or not
	all       list        // the log itself: the units of all calls
	horizon   int64       // the longest of all lists and counters, and the history
	history   decide.Use  // asked by Batch.History
	turnAt    int64       // when to look for lists that are no longer in use
	entries   ring[entry] // what else is known of the calls, at the same places as in all
	lists     []*list     // of the other coverages asked for
	counters  []*counter
	views     []*view
	labels    []*labelled // by number; nil when no entry has it any more
	numbers   map[label]uint32
	free      []uint32 // the numbers of those that are nil
	latest    uint32   // the label of the newest entry: calls often follow their like
	cooldowns map[string]*quota.Cooldown
	clients   map[uint64]*granted
}

// granted is what is remembered of a client's last batch.
type granted struct {
	seq    uint64
	stamps map[uint64]int64 // by Seq of the request
}

// everything is the coverage of a log itself.
var everything = quota.NewCoverage(quota.Coverage{})

func newLog(name logName, days decide.Days, cooldowns map[string]*quota.Cooldown) *log {
	return &log{Judge: decide.Judge{Account: name.account, Key: name.key, Days: days}, all: list{coverage: everything}, cooldowns: cooldowns}
}

// judge returns who decides at an instant.
func (g *log) judge(now int64) *decide.Judge {
	g.Now = now
	return &g.Judge
}

// Cooldown implements decide.Log.
func (g *log) Cooldown(budget string) *quota.Cooldown {
	if len(g.cooldowns) == 0 {
		return nil
	}
	return g.cooldowns[budget]
}

// Newest implements decide.Log.
func (g *log) Newest() int64 { return g.newest }

// keeps reports whether entries are kept: unless all that is asked of the log
// is counters.
func (g *log) keeps() bool { return g.horizon > 0 || len(g.counters) == 0 }

// List implements decide.Log. A list that is new, or that a longer window now
// asks, is filled from the log and kept from now on.
func (g *log) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		return g.counter(coverage, window.Length().Microseconds())
	}
	for _, v := range g.views { // to compare all of the window would take a tenth of the whole step
		if v.asked == window && v.coverage == coverage && v.window.Length() == window.Length() {
			v.last = g.Now
			return v
		}
	}
	for _, v := range g.views {
		if v.window == *window && same(v.coverage, coverage) {
			v.asked, v.coverage, v.last = window, coverage, g.Now
			return v
		}
	}
	l := g.list(coverage, window.Horizon().Microseconds())
	const maxViews = 4 * quota.MaxCoverages // budgets whose windows change all the time
	if len(g.views) >= maxViews {
		g.views = nil
	}
	v := &view{list: l, coverage: coverage, asked: window, window: *window, last: g.Now}
	g.views = append(g.views, v)
	return v
}

func same(a, b *quota.Coverage) bool { return a == b || a.Key() == b.Key() }

// list returns the list of a coverage, which reaches back by a horizon from now on.
func (g *log) list(coverage *quota.Coverage, horizon int64) *list {
	l := g.find(coverage)
	switch {
	case l == &g.all:
	case l == nil:
		l = &list{coverage: coverage}
		g.fill(l)
		g.lists = append(g.lists, l)
	case l.use.Horizon() < horizon:
		g.fill(l)
	}
	if l.use.Ask(horizon, g.Now) {
		g.turn()
	}
	return l
}

// find returns the list of a coverage, or nil.
func (g *log) find(coverage *quota.Coverage) *list {
	if same(coverage, everything) {
		return &g.all
	}
	for _, l := range g.lists {
		if same(l.coverage, coverage) {
			return l
		}
	}
	return nil
}

// fill makes a list say what the log says.
func (g *log) fill(l *list) {
	l.records, l.base, l.newest = ring[record]{}, 0, record{}
	g.each(l.coverage, l.add)
	g.stale()
}

// each calls add with the stamp of every entry that a coverage covers, oldest
// first, and with what it counts.
func (g *log) each(coverage *quota.Coverage, add func(stamp, amount int64)) {
	for i := g.entries.head; i < g.entries.tail; i++ {
		e := g.entries.at(i)
		if label := g.labels[e.label]; coverage.Covers(label.method, label.caller) {
			add(g.all.records.at(i).stamp, amount(coverage, int64(e.units), int64(e.calls)))
		}
	}
}

// counter returns the counter of a coverage and a length, filled from the log
// when it is new.
func (g *log) counter(coverage *quota.Coverage, length int64) *counter {
	for _, c := range g.counters {
		if c.Length == length && same(c.coverage, coverage) {
			c.asked = g.Now
			return c
		}
	}
	c := &counter{coverage: coverage, asked: g.Now}
	g.count(c, length)
	g.counters = append(g.counters, c)
	g.stale()
	g.turn()
	return c
}

// count makes a counter say what the log says.
func (g *log) count(c *counter, length int64) {
	c.Counter = decide.Counter{Length: length}
	g.each(c.coverage, c.Add)
}

// stale makes every label look again for what counts its entries.
func (g *log) stale() {
	for _, have := range g.labels {
		if have != nil {
			have.stale = true
		}
	}
}

// asked notes for how long the batch wants its entries listed.
func (g *log) asked(history time.Duration) {
	if history > 0 && g.history.Ask(history.Microseconds(), g.Now) {
		g.turn()
	}
}

// idle reports whether nothing in the log matters any more, and will not if the
// clock steps back.
func (g *log) idle(now int64) bool {
	longest := max(g.horizon, int64(time.Minute/time.Microsecond))
	for _, c := range g.counters {
		longest = max(longest, 2*c.Length)
	}
	return g.newest+2*longest < now
}

// turnEvery is how often a log looks for lists that are no longer in use.
const turnEvery = int64(time.Hour / time.Microsecond)

// turn drops the lists and counters that are no longer in use, and finds out
// how far back the log must reach.
func (g *log) turn() {
	g.turnAt = g.Now + turnEvery
	for _, v := range g.views {
		if v.last > g.Now-turnEvery {
			v.list.use.Ask(v.window.Horizon().Microseconds(), g.Now)
		}
	}
	g.all.use.Turn(g.Now)
	g.history.Turn(g.Now)
	longest, lists, counters := max(g.all.use.Horizon(), g.history.Horizon()), g.lists[:0:0], g.counters[:0:0]
	for _, l := range g.lists {
		if l.use.Turn(g.Now); l.use.Horizon() > 0 {
			lists, longest = append(lists, l), max(longest, l.use.Horizon())
		}
	}
	entries := longest > 0
	for _, c := range g.counters {
		if !c.Idle(g.Now) || !decide.Stale(c.asked, 2*c.Length, g.Now) {
			counters = append(counters, c)
			if entries { // they are settled by their entries
				longest = max(longest, 2*c.Length)
			}
		}
	}
	if len(lists) != len(g.lists) || len(counters) != len(g.counters) {
		g.views = nil
		g.stale()
	}
	g.lists, g.counters, g.horizon = lists, counters, longest
}

// onlooker is a log whose lists are looked at, and none is made.
type onlooker struct{ *log }

// List implements decide.Log.
func (o onlooker) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		length := window.Length().Microseconds()
		for _, c := range o.counters {
			if c.Length == length && same(c.coverage, coverage) {
				return c
			}
		}
		c := &counter{coverage: coverage}
		o.count(c, length)
		return c
	}
	horizon := window.Horizon().Microseconds()
	l := o.find(coverage)
	if l == nil || l != &o.all && l.use.Horizon() < horizon {
		l = &list{coverage: coverage}
		o.each(coverage, l.add)
	}
	return &view{list: l, window: *window}
}

// remembered returns the grants of a batch that came before, by Seq.
func (g *log) remembered(batch *quota.Batch) map[uint64]int64 {
	if batch.Client == 0 {
		return nil
	}
	if have := g.clients[batch.Client]; have != nil && have.seq == batch.Seq {
		return have.stamps
	}
	return nil
}

// maxClients bounds how many clients are remembered; the rest are forgotten at random.
const maxClients = 4096

func (g *log) remember(batch *quota.Batch, seq uint64, stamp int64) {
	have := g.clients[batch.Client]
	if have == nil || have.seq != batch.Seq {
		for client := range g.clients {
			if len(g.clients) < maxClients {
				break
			}
			delete(g.clients, client)
		}
		if g.clients == nil {
			g.clients = map[uint64]*granted{}
		}
		have = &granted{seq: batch.Seq, stamps: map[uint64]int64{}}
		g.clients[batch.Client] = have
	}
	have.stamps[seq] = stamp
}
