package memledger

import (
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// log is all calls of one account, or of one key of it.
type log struct {
	decide.Judge
	all       list        // the log itself: the units of all calls
	entries   ring[entry] // what else is known of them, at the same places
	lists     []*list     // of the other coverages asked for
	views     []*view
	labels    []*labelled // by number; nil when no entry has it any more
	numbers   map[label]uint32
	free      []uint32 // the numbers of those that are nil
	latest    uint32   // the label of the newest entry: calls often follow their like
	cooldowns map[string]*quota.Cooldown
	clients   map[uint64]*granted
}

// entry is one recorded call. What it shares with others is its label.
type entry struct {
	id    quota.ID
	units uint32
	label uint32
	calls uint32
}

type label struct {
	method string
	caller quota.Caller
}

type labelled struct {
	label
	entries int     // how many have it
	lists   []*list // that they are recorded in
	stale   bool    // lists were made since
}

// granted is what is remembered of a client's last batch.
type granted struct {
	seq    uint64
	stamps map[uint64]int64 // by Seq of the request
}

// everything is the coverage of a log itself.
var everything = quota.NewCoverage(quota.Coverage{})

func newLog(name logName, days decide.Days, cooldowns map[string]*quota.Cooldown) *log {
	g := &log{Judge: decide.Judge{Account: name.account, Key: name.key, Days: days}, all: list{coverage: everything}, cooldowns: cooldowns}
	if name.key == "" {
		g.all.horizon = decide.Kept
	}
	return g
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

// List implements decide.Log. A list that is new, or that a longer window now
// asks, is filled from the log and kept from now on.
func (g *log) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	for _, v := range g.views { // to compare all of the window would take a tenth of the whole step
		if v.asked == window && v.coverage == coverage && v.window.Length() == window.Length() {
			return v
		}
	}
	for _, v := range g.views {
		if v.window == *window && same(v.coverage, coverage) {
			v.asked, v.coverage = window, coverage
			return v
		}
	}
	l := g.keep(coverage, window.Horizon().Microseconds())
	const maxViews = 4 * quota.MaxCoverages // budgets whose windows change all the time
	if len(g.views) >= maxViews {
		g.views = nil
	}
	v := &view{list: l, coverage: coverage, asked: window, window: *window}
	g.views = append(g.views, v)
	return v
}

func same(a, b *quota.Coverage) bool { return a == b || a.Key() == b.Key() }

func (g *log) keep(coverage *quota.Coverage, horizon int64) *list {
	g.all.horizon = max(g.all.horizon, horizon)
	l := g.find(coverage)
	switch {
	case l == nil:
		l = g.fill(coverage, horizon)
		g.lists = append(g.lists, l)
	case l.horizon < horizon:
		*l = *g.fill(coverage, horizon)
	default:
		return l
	}
	for _, have := range g.labels {
		if have != nil {
			have.stale = true
		}
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

// fill makes a list of a coverage from the log.
func (g *log) fill(coverage *quota.Coverage, horizon int64) *list {
	l := &list{coverage: coverage, horizon: horizon}
	for i := g.entries.head; i < g.entries.tail; i++ {
		e := g.entries.at(i)
		if label := g.labels[e.label]; coverage.Covers(label.method, label.caller) {
			l.add(g.all.records.at(i).stamp, l.amount(int64(e.units), int64(e.calls)))
		}
	}
	return l
}

// onlooker is a log whose lists are looked at, and none is made.
type onlooker struct{ *log }

// List implements decide.Log.
func (o onlooker) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	horizon := window.Horizon().Microseconds()
	l := o.find(coverage)
	if l == nil || l != &o.all && l.horizon < horizon {
		l = o.fill(coverage, horizon)
	}
	return &view{list: l, window: *window}
}

// record enters an admitted request into the log and every list that covers
// it, and returns its stamp.
func (g *log) record(r *quota.Request, now int64, id quota.ID) int64 {
	number := g.number(r.Method, &r.Caller)
	stamp := g.add(entry{id: id, units: uint32(r.Units), label: number, calls: uint32(decide.Calls(r))}, now)
	g.trim(now)
	return stamp
}

func (g *log) add(e entry, now int64) int64 {
	stamp := max(now, g.all.newest.stamp+1)
	g.entries.push(e)
	g.all.add(stamp, int64(e.units))
	have := g.labels[e.label]
	have.entries++
	for _, l := range g.covering(have) {
		l.add(stamp, l.amount(int64(e.units), int64(e.calls)))
		l.trim(now)
	}
	g.latest = e.label
	return stamp
}

// number returns the number of a label.
func (g *log) number(method string, caller *quota.Caller) uint32 {
	if int(g.latest) < len(g.labels) {
		if have := g.labels[g.latest]; have != nil && have.method == method && have.caller == *caller {
			return g.latest
		}
	}
	name := label{method, *caller}
	if number, ok := g.numbers[name]; ok {
		return number
	}
	number := uint32(len(g.labels))
	if n := len(g.free); n > 0 {
		number, g.free = g.free[n-1], g.free[:n-1]
	} else {
		g.labels = append(g.labels, nil)
	}
	if g.numbers == nil {
		g.numbers = map[label]uint32{}
	}
	g.numbers[name] = number
	g.labels[number] = &labelled{label: name, stale: true}
	return number
}

// covering returns the lists that a label's entries are recorded in.
func (g *log) covering(have *labelled) []*list {
	if have.stale {
		have.stale, have.lists = false, nil
		for _, l := range g.lists {
			if l.coverage.Covers(have.method, have.caller) {
				have.lists = append(have.lists, l)
			}
		}
	}
	return have.lists
}

// trim drops the entries that no window can see any more.
func (g *log) trim(now int64) {
	for range g.all.trim(now) {
		number := g.entries.at(g.entries.head).label
		g.entries.drop()
		have := g.labels[number]
		if have.entries--; have.entries == 0 {
			delete(g.numbers, have.label)
			g.labels[number], g.free = nil, append(g.free, number)
		}
	}
}

// oldest returns the stamp from which on entries belong to the log still:
// older ones wait for their trimming.
func (g *log) oldest() int64 { return g.all.newest.stamp - decide.Retain(g.all.horizon) + 1 }

// correct changes the entry of a receipt.
func (g *log) correct(receipt quota.Receipt, units, calls quota.Units, now int64) error {
	stamp := receipt.At.UnixMicro()
	i := g.all.find(g.entries.tail, stamp)
	if i == g.entries.tail || stamp < g.oldest() || g.all.records.at(i).stamp != stamp || g.entries.at(i).id != receipt.ID {
		return nil // it has left the log, and with it every window
	}
	e := g.entries.at(i)
	more := int64(units) - int64(e.units)
	if g.entries.tail-1-i > quota.MaxSettle {
		if more < 0 || uint32(calls) < e.calls {
			return quota.ErrStays
		}
		if more > 0 {
			g.add(entry{id: e.id, units: uint32(more), label: e.label}, now)
		}
		return nil
	}
	g.all.correct(stamp, more)
	for _, l := range g.covering(g.labels[e.label]) {
		l.correct(stamp, l.amount(int64(units), int64(calls))-l.amount(int64(e.units), int64(e.calls)))
	}
	e.units, e.calls = uint32(units), uint32(calls)
	return nil
}

func (g *log) page(from, until int64) []quota.Entry {
	var page []quota.Entry
	for i := g.all.find(g.entries.head, max(from, g.oldest())); i < g.entries.tail && len(page) < pageSize; i++ {
		stamp, e := g.all.records.at(i).stamp, g.entries.at(i)
		if stamp >= until {
			break
		}
		label := g.labels[e.label]
		page = append(page, quota.Entry{At: time.UnixMicro(stamp).UTC(), ID: e.id, Method: label.method,
			Caller: label.caller, Units: quota.Units(e.units), Calls: quota.Units(e.calls)})
	}
	return page
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
