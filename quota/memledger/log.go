package memledger

import (
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// log holds the calls of one account, or of one key of an account.
type log struct {
	decide.Judge
	epoch      uint64
	newest     int64                // the newest stamp, even of an entry that was not kept
	all        list                 // the units of all calls
	horizon    int64                // how far back entries are kept
	history    decide.RecentHorizon // of Batch.History
	rotateAt   int64                // when to look for lists that are no longer in use
	entries    ring[entry]          // the rest of each call, at the same place as its record in all
	lists      []*list              // of the other coverages
	counters   []*counter
	views      []*view
	labels     []*labelInfo // by number; nil if no entry has the label
	numbers    map[label]uint32
	free       []uint32 // the numbers whose labels are nil
	latest     uint32   // the label of the newest entry, which the next call often shares
	cooldowns  map[string]*quota.Cooldown
	limits     *decide.Limits // of the account, as the cooldowns
	clients    map[uint64]*lastBatch
	sweepAt    int // how many clients there may be before the old ones are forgotten
	statements decide.Statements
}

// lastBatch holds the grants of a client's last batch.
type lastBatch struct {
	seq    uint64
	stamps map[uint64]int64 // by Seq of the request
}

// everything is the coverage of log.all.
var everything = quota.NewCoverage(quota.Coverage{})

func newLog(name logName, days decide.Days, cooldowns map[string]*quota.Cooldown, limits *decide.Limits) *log {
	return &log{limits: limits, epoch: quota.NewEpoch(), Judge: decide.Judge{Account: name.account, Key: name.key, Days: days}, all: list{coverage: everything}, cooldowns: cooldowns}
}

// judgeAt returns a judge for decisions at an instant.
func (g *log) judgeAt(now int64) *decide.Judge {
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

// Limited implements decide.Log.
func (g *log) Limited(charges []*quota.Charge) []*quota.Charge {
	held, _ := g.limits.Ask(charges, g.Now)
	return held
}

// Newest implements decide.Log.
func (g *log) Newest() int64 { return g.newest }

// keepsEntries reports whether the log keeps entries: it does not if it is only
// asked counter windows.
func (g *log) keepsEntries() bool { return g.horizon > 0 || len(g.counters) == 0 }

// List implements decide.Log. A list that is new, or that a longer window asks
// for, is filled from the log and then kept up to date.
func (g *log) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		return g.counter(coverage, window.Length().Microseconds())
	}
	for _, v := range g.views { // comparing whole windows would take a tenth of the step
		if v.asked == window && v.coverage == coverage && v.window.Length() == window.Length() {
			v.last = g.Now
			return v
		}
	}
	for _, v := range g.views {
		if v.window == *window && sameCoverage(v.coverage, coverage) {
			v.asked, v.coverage = window, coverage
			v.last = g.Now
			return v
		}
	}
	l := g.list(coverage, window.Horizon().Microseconds())
	const maxViews = 4 * quota.MaxCoverages // some budgets change their windows all the time
	if len(g.views) >= maxViews {
		g.views = nil
	}
	v := &view{list: l, coverage: coverage, asked: window, window: *window, last: g.Now}
	g.views = append(g.views, v)
	return v
}

func sameCoverage(a, b *quota.Coverage) bool { return a == b || a.Key() == b.Key() }

// list returns the list of a coverage, and keeps it back to a horizon from
// now on.
func (g *log) list(coverage *quota.Coverage, horizon int64) *list {
	l := g.findList(coverage)
	switch {
	case l == &g.all:
	case l == nil:
		l = &list{coverage: coverage}
		g.fill(l)
		g.lists = append(g.lists, l)
	case l.use.Horizon() < horizon:
		g.fill(l)
	}
	if l.use.Record(horizon, g.Now) {
		g.rotate()
	}
	return l
}

// findList returns the list of a coverage, or nil.
func (g *log) findList(coverage *quota.Coverage) *list {
	if sameCoverage(coverage, everything) {
		return &g.all
	}
	for _, l := range g.lists {
		if sameCoverage(l.coverage, coverage) {
			return l
		}
	}
	return nil
}

// fill computes a list from the entries.
func (g *log) fill(l *list) {
	*l = list{coverage: l.coverage, use: l.use}
	g.eachAmount(l.coverage, l.add)
	g.invalidateLabels()
}

// eachAmount calls add for every entry that a coverage covers, oldest first,
// with its stamp and the amount that it counts for.
func (g *log) eachAmount(coverage *quota.Coverage, add func(stamp, amount int64)) {
	for i := g.entries.head; i < g.entries.tail; i++ {
		e := g.entries.at(i)
		if label := g.labels[e.label]; coverage.Covers(label.method, label.caller) {
			add(g.all.records.at(i).stamp, decide.Amount(coverage, int64(e.units), int64(e.calls)))
		}
	}
}

// counter returns the counter of a coverage and a length, and creates it
// if necessary.
func (g *log) counter(coverage *quota.Coverage, length int64) *counter {
	c, found := g.findCounter(coverage, length)
	c.asked = g.Now
	if !found {
		g.counters = append(g.counters, c)
		g.invalidateLabels()
		g.rotate()
	}
	return c
}

// findCounter returns the counter of a coverage and a length. If there is none,
// it returns a new one, filled from the entries.
func (g *log) findCounter(coverage *quota.Coverage, length int64) (c *counter, found bool) {
	for _, c := range g.counters {
		if c.Length == length && sameCoverage(c.coverage, coverage) {
			return c, true
		}
	}
	c = &counter{coverage: coverage}
	g.fillCounter(c, length)
	return c, false
}

// fillCounter computes a counter from the entries.
func (g *log) fillCounter(c *counter, length int64) {
	c.Counter = decide.Counter{Length: length}
	g.eachAmount(c.coverage, c.Add)
}

// invalidateLabels makes every label find its lists and counters again.
func (g *log) invalidateLabels() {
	for _, info := range g.labels {
		if info != nil {
			info.stale = true
		}
	}
}

// recordHistory records how long a batch wants the log to keep its entries.
func (g *log) recordHistory(history time.Duration) {
	if history > 0 && g.history.Record(history.Microseconds(), g.Now) {
		g.rotate()
	}
}

// idle reports whether nothing in the log matters at now, even if the clock
// steps back.
func (g *log) idle(now int64) bool {
	longest := max(g.horizon, int64(time.Minute/time.Microsecond))
	for _, c := range g.counters {
		longest = max(longest, 2*c.Length)
	}
	return g.newest+2*longest < now
}

// rotateEvery is how often a log looks for lists that are no longer in use.
const rotateEvery = int64(time.Hour / time.Microsecond)

// rotate drops the lists and counters that are no longer in use and computes
// how far back the log must reach.
func (g *log) rotate() {
	g.rotateAt = g.Now + rotateEvery
	for _, v := range g.views {
		if v.last > g.Now-rotateEvery {
			v.list.use.Record(v.window.Horizon().Microseconds(), g.Now)
		}
	}
	g.all.use.Rotate(g.Now)
	g.history.Rotate(g.Now)
	longest := max(g.all.use.Horizon(), g.history.Horizon())
	lists, counters := g.lists[:0:0], g.counters[:0:0]
	for _, l := range g.lists {
		if l.use.Rotate(g.Now); l.use.Horizon() > 0 {
			lists, longest = append(lists, l), max(longest, l.use.Horizon())
		}
	}
	keepsEntries := longest > 0
	for _, c := range g.counters {
		if !c.Idle(g.Now) || !decide.Stale(c.asked, 2*c.Length, g.Now) {
			counters = append(counters, c)
			if keepsEntries { // which Settle needs to adjust the counter
				longest = max(longest, 2*c.Length)
			}
		}
	}
	if len(lists) != len(g.lists) || len(counters) != len(g.counters) {
		g.views = nil
		g.invalidateLabels()
	}
	g.views = slices.DeleteFunc(g.views, func(v *view) bool { // their lists are kept anew when they are asked again
		return v.window.Horizon().Microseconds() > v.list.use.Horizon()
	})
	kept := g.keepsEntries()
	g.lists = lists
	g.counters = counters
	g.horizon = longest
	if g.newest > 0 && !kept && g.keepsEntries() { // those from now on
		g.statements.Kept = decide.Time(g.newest)
	}
}

// readOnly is a decide.Log that adds no lists, counters and limits to its log.
type readOnly struct{ *log }

// Limited implements decide.Log.
func (o readOnly) Limited(charges []*quota.Charge) []*quota.Charge {
	return o.limits.Held(charges, o.Now)
}

// List implements decide.Log.
func (o readOnly) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	if window.Estimate() {
		c, _ := o.findCounter(coverage, window.Length().Microseconds())
		return c
	}
	horizon := window.Horizon().Microseconds()
	l := o.findList(coverage)
	if l == nil || l != &o.all && l.use.Horizon() < horizon {
		l = &list{coverage: coverage}
		o.eachAmount(coverage, l.add)
	}
	return &view{list: l, window: *window}
}

// grantsOf returns the stamps that an earlier attempt at a batch was granted,
// by Seq.
func (g *log) grantsOf(batch *quota.Batch) (map[uint64]int64, error) {
	last := g.clients[batch.Client]
	switch {
	case last == nil:
		return nil, nil
	case last.seq == batch.Seq:
		return last.stamps, nil
	case batch.Once:
		return nil, quota.ErrReused
	}
	return nil, nil
}

// forgetGrant forgets that a request was granted, so that a repeat is charged.
func (g *log) forgetGrant(id quota.ID, stamp int64) {
	if last := g.clients[id.Client]; last != nil && last.stamps[id.Seq] == stamp {
		delete(last.stamps, id.Seq)
	}
}

func (g *log) recordGrant(batch *quota.Batch, seq uint64, stamp int64) {
	last := g.clients[batch.Client]
	if last == nil || last.seq != batch.Seq {
		if g.clients == nil {
			g.clients = map[uint64]*lastBatch{}
		}
		g.sweepClients()
		last = &lastBatch{seq: batch.Seq, stamps: map[uint64]int64{}}
		g.clients[batch.Client] = last
	}
	last.stamps[seq] = stamp
}

// sweepEvery is how many clients a log has before it looks for old ones.
const sweepEvery = 4096

// sweepClients forgets batches older than decide.ClientMemory. It runs only
// when the clients have doubled since, so that a grant costs the same however
// many there are.
func (g *log) sweepClients() {
	if len(g.clients) < max(g.sweepAt, sweepEvery) {
		return
	}
	maps.DeleteFunc(g.clients, func(_ uint64, b *lastBatch) bool {
		for _, stamp := range b.stamps {
			if stamp >= g.newest-decide.ClientMemory {
				return false
			}
		}
		return true
	})
	g.sweepAt = 2 * len(g.clients)
}
