package memledger

import (
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// entry is one recorded call. What it shares with others is its label.
type entry struct {
	id    quota.ID
	units uint32
	label uint32
	calls uint32
	kind  quota.EntryKind
}

type label struct {
	method string
	caller quota.Caller
}

type labelled struct {
	label
	entries  int     // how many have it
	lists    []*list // that they are recorded in
	counters []*counter
	stale    bool // lists or counters were made since
}

// record enters an admitted request into the log and everything that covers
// it, and returns its stamp.
func (g *log) record(r *quota.Request, now int64, id quota.ID) int64 {
	stamp := g.add(label{r.Method, r.Caller}, entry{id: id, units: uint32(r.Units), calls: uint32(r.Count()), kind: r.Kind}, now)
	if now >= g.turnAt {
		g.turn()
	}
	g.trim(now)
	return stamp
}

// add enters an entry of a label.
func (g *log) add(name label, e entry, now int64) int64 {
	stamp := max(now, g.newest+1)
	g.newest = stamp
	if !g.keeps() {
		for _, c := range g.counters {
			if c.coverage.Covers(name.method, name.caller) {
				c.Add(stamp, amount(c.coverage, int64(e.units), int64(e.calls)))
			}
		}
		return stamp
	}
	e.label = g.number(name)
	have := g.labels[e.label]
	g.cover(have)
	g.entries.push(e)
	g.all.add(stamp, int64(e.units))
	have.entries++
	for _, l := range have.lists {
		l.add(stamp, amount(l.coverage, int64(e.units), int64(e.calls)))
		l.trim(now, l.use.Horizon())
	}
	for _, c := range have.counters {
		c.Add(stamp, amount(c.coverage, int64(e.units), int64(e.calls)))
	}
	g.latest = e.label
	return stamp
}

// number returns the number of a label.
func (g *log) number(name label) uint32 {
	if int(g.latest) < len(g.labels) {
		if have := g.labels[g.latest]; have != nil && have.label == name {
			return g.latest
		}
	}
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

// cover finds what a label's entries are recorded in, if that may have changed.
func (g *log) cover(have *labelled) {
	if !have.stale {
		return
	}
	have.stale, have.lists, have.counters = false, nil, nil
	for _, l := range g.lists {
		if l.coverage.Covers(have.method, have.caller) {
			have.lists = append(have.lists, l)
		}
	}
	for _, c := range g.counters {
		if c.coverage.Covers(have.method, have.caller) {
			have.counters = append(have.counters, c)
		}
	}
}

// trim drops the entries that no window can see any more.
func (g *log) trim(now int64) {
	for range g.all.trim(now, g.horizon) {
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
// older ones wait to be trimmed.
func (g *log) oldest() int64 { return g.all.newest.stamp - decide.Retain(g.horizon) + 1 }

// correct changes the entry of a receipt.
func (g *log) correct(receipt quota.Receipt, units, calls quota.Units, now int64) error {
	stamp := receipt.At.UnixMicro()
	i := g.all.find(g.entries.tail, stamp)
	if i == g.entries.tail || stamp < g.oldest() || g.all.records.at(i).stamp != stamp || g.entries.at(i).id != receipt.ID {
		if !g.keeps() {
			g.recount(receipt, int64(units), int64(calls))
		}
		return nil // it has left the log, and with it every window
	}
	e := g.entries.at(i)
	have := g.labels[e.label]
	more := int64(units) - int64(e.units)
	if g.entries.tail-1-i > quota.MaxSettle {
		if more < 0 || uint32(calls) < e.calls {
			return quota.ErrStays
		}
		if more > 0 {
			g.add(have.label, entry{id: e.id, units: uint32(more), kind: quota.EntryAddition}, now)
		}
		return nil
	}
	g.cover(have)
	g.all.correct(stamp, more)
	for _, l := range have.lists {
		l.correct(stamp, amount(l.coverage, int64(units), int64(calls))-amount(l.coverage, int64(e.units), int64(e.calls)))
	}
	for _, c := range have.counters {
		c.Correct(stamp, amount(c.coverage, int64(units), int64(calls))-amount(c.coverage, int64(e.units), int64(e.calls)))
	}
	e.units, e.calls, e.kind = uint32(units), uint32(calls), settledKind(calls)
	return nil
}

// settledKind returns what an entry is once it counts so many calls.
func settledKind(calls quota.Units) quota.EntryKind {
	if calls == 0 {
		return quota.EntryRefunded
	}
	return quota.EntryCall
}

// recount corrects the counters of a log without entries, by what the receipt
// says they counted.
func (g *log) recount(receipt quota.Receipt, units, calls int64) {
	was, wasCalls := receipt.Recorded, int64(1)
	if was == nil {
		return
	}
	if was.Refunded {
		wasCalls = 0
	}
	for _, c := range g.counters {
		if c.coverage.Covers(was.Method, was.Caller) {
			c.Correct(receipt.At.UnixMicro(), amount(c.coverage, units, calls)-amount(c.coverage, int64(was.Units), wasCalls))
		}
	}
}

// restamp gives the entries that are stamped ahead of now the microseconds up
// to now, and returns how many there were.
func (g *log) restamp(now int64) int {
	place := g.all.find(g.entries.tail, now+1)
	changed := g.entries.tail - place
	stamp := now - int64(changed)
	if place > g.entries.head {
		stamp = max(stamp, g.all.records.at(place-1).stamp)
	}
	for i := place; i < g.entries.tail; i++ {
		stamp++
		g.all.records.at(i).stamp = stamp
	}
	if changed > 0 {
		g.all.newest.stamp = stamp
	}
	for _, l := range g.lists {
		g.fill(l)
	}
	for _, c := range g.counters {
		counted := c.Counter
		moved := counted.Restamp(now)
		if !g.keeps() {
			c.Counter = counted
			if moved {
				changed++
			}
			continue
		}
		g.count(c, c.Length)
		if moved && c.Start <= counted.Start { // it may have counted before entries were kept
			c.Start, c.Present = counted.Start, max(c.Present, counted.Present)
		}
	}
	g.views, g.newest = nil, min(g.newest, max(now, g.all.newest.stamp))
	return changed
}

// page returns the entries of a page, oldest first.
func (g *log) page(p decide.Page) []quota.Entry {
	begin := g.all.find(g.entries.head, max(p.From, g.oldest()))
	end := g.all.find(g.entries.tail, p.Until)
	if p.Newest {
		begin = max(begin, end-p.Most)
	} else {
		end = min(end, begin+p.Most)
	}
	var page []quota.Entry
	for place := begin; place < end; place++ {
		e := g.entries.at(place)
		label := g.labels[e.label]
		page = append(page, quota.Entry{At: decide.Instant(g.all.records.at(place).stamp), ID: e.id, Kind: e.kind, Method: label.method,
			Caller: label.caller, Units: quota.Units(e.units), Calls: quota.Units(e.calls)})
	}
	return page
}
