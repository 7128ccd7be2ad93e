package memledger

import (
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// entry is one recorded call. Calls of one method and caller share a label.
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

// labelInfo is a label with the lists and counters that count its entries.
type labelInfo struct {
	label
	entries  int // how many entries have the label
	lists    []*list
	counters []*counter
	stale    bool // the log's lists or counters have changed
}

// record adds an admitted request to the log and to everything that counts it.
// It returns the stamp.
func (g *log) record(r *quota.Request, now int64, id quota.ID) int64 {
	stamp := g.add(label{r.Method, r.Caller}, entry{id: id, units: uint32(r.Units), calls: uint32(r.Count()), kind: r.Kind}, now)
	if now >= g.rotateAt {
		g.rotate()
	}
	g.trim(now)
	return stamp
}

// add adds an entry with a label and returns its stamp.
func (g *log) add(name label, e entry, now int64) int64 {
	stamp := max(now, g.newest+1)
	g.newest = stamp
	if !g.keepsEntries() {
		for _, c := range g.counters {
			if c.coverage.Covers(name.method, name.caller) {
				c.Add(stamp, decide.Amount(c.coverage, int64(e.units), int64(e.calls)))
			}
		}
		return stamp
	}
	e.label = g.labelNumber(name)
	info := g.upToDate(e.label)
	g.entries.push(e)
	g.all.add(stamp, int64(e.units))
	info.entries++
	for _, l := range info.lists {
		l.add(stamp, decide.Amount(l.coverage, int64(e.units), int64(e.calls)))
		l.trim(now, l.use.Horizon())
	}
	for _, c := range info.counters {
		c.Add(stamp, decide.Amount(c.coverage, int64(e.units), int64(e.calls)))
	}
	g.latest = e.label
	return stamp
}

// labelNumber returns the number of a label, and assigns one if necessary.
func (g *log) labelNumber(name label) uint32 {
	if int(g.latest) < len(g.labels) {
		if info := g.labels[g.latest]; info != nil && info.label == name {
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
	g.labels[number] = &labelInfo{label: name, stale: true}
	return number
}

// upToDate returns a label with its current lists and counters.
func (g *log) upToDate(number uint32) *labelInfo {
	info := g.labels[number]
	if !info.stale {
		return info
	}
	*info = labelInfo{label: info.label, entries: info.entries}
	for _, l := range g.lists {
		if l.coverage.Covers(info.method, info.caller) {
			info.lists = append(info.lists, l)
		}
	}
	for _, c := range g.counters {
		if c.coverage.Covers(info.method, info.caller) {
			info.counters = append(info.counters, c)
		}
	}
	return info
}

// trim drops entries that no window can see.
func (g *log) trim(now int64) {
	for range g.all.trim(now, g.horizon) {
		number := g.entries.at(g.entries.head).label
		g.entries.drop()
		info := g.labels[number]
		if info.entries--; info.entries == 0 {
			delete(g.numbers, info.label)
			g.labels[number], g.free = nil, append(g.free, number)
		}
	}
}

// oldest returns the oldest stamp that belongs to the log. Entries with older
// stamps have not been trimmed yet.
func (g *log) oldest() int64 { return g.all.newest.stamp - decide.Retain(g.horizon) + 1 }

// newestEntry returns the newest entry but for notes up to an instant, with the
// log's epoch.
func (g *log) newestEntry(until int64) quota.Receipt {
	newest, oldest := quota.Receipt{Epoch: g.epoch}, until-decide.Retain(g.horizon)+1
	for place := g.entries.tail - 1; place >= g.entries.head; place-- {
		stamp, e := g.all.records.at(place).stamp, g.entries.at(place)
		if stamp < oldest {
			break
		}
		if stamp <= until && e.kind != quota.EntryNote {
			newest.ID, newest.At = e.id, decide.Time(stamp)
			break
		}
	}
	return newest
}

// find returns the place of a receipt's entry, if the log has it.
func (g *log) find(receipt quota.Receipt) (place int, found bool) {
	stamp := receipt.At.UnixMicro()
	place = g.all.find(g.entries.tail, stamp)
	if place == g.entries.tail || stamp < g.oldest() {
		return 0, false
	}
	return place, g.all.records.at(place).stamp == stamp && g.entries.at(place).id == receipt.ID
}

// settle changes the units and calls of a receipt's entry.
func (g *log) settle(receipt quota.Receipt, units, calls quota.Units, now int64) error {
	place, found := g.find(receipt)
	if !found {
		if receipt.Recorded != nil && (!g.keepsEntries() || !receipt.At.After(g.statements.Kept)) {
			return g.settleCounters(receipt, units, calls)
		}
		return nil // it has left the log, and with it every window
	}
	e, stamp := g.entries.at(place), g.all.records.at(place).stamp
	more := int64(units) - int64(e.units)
	if g.entries.tail-1-place > quota.MaxSettle {
		if more < 0 || uint32(calls) < e.calls {
			return quota.ErrStays
		}
		if more > 0 {
			g.add(g.labels[e.label].label, entry{id: e.id, units: uint32(more), kind: quota.EntryAddition}, now)
		}
		return nil
	}
	info := g.upToDate(e.label)
	g.all.adjust(stamp, more)
	for _, l := range info.lists {
		l.adjust(stamp, decide.Amount(l.coverage, int64(units), int64(calls))-decide.Amount(l.coverage, int64(e.units), int64(e.calls)))
	}
	for _, c := range info.counters {
		c.Adjust(stamp, decide.Amount(c.coverage, int64(units), int64(calls))-decide.Amount(c.coverage, int64(e.units), int64(e.calls)))
	}
	e.units, e.calls = uint32(units), uint32(calls)
	e.kind = quota.EntryCall
	if calls == 0 {
		e.kind = quota.EntryRefunded
	}
	return nil
}

// settleCounters adjusts the counters for a call of which the log has kept no
// entry. The receipt says what they have counted.
func (g *log) settleCounters(receipt quota.Receipt, units, calls quota.Units) error {
	was := receipt.Recorded
	if err := decide.CheckLower(was, units, calls); err != nil || decide.LowersOthers(&receipt, g.epoch, units, calls) {
		return err
	}
	if calls == 0 {
		g.forgetGrant(receipt.ID, receipt.At.UnixMicro())
	}
	wasCalls := int64(1)
	if was.Refunded {
		wasCalls = 0
	}
	for _, c := range g.counters {
		if c.coverage.Covers(was.Method, was.Caller) {
			c.Adjust(receipt.At.UnixMicro(), decide.Amount(c.coverage, int64(units), int64(calls))-decide.Amount(c.coverage, int64(was.Units), wasCalls))
		}
	}
	return nil
}

// restamp moves the entries that are stamped after now to the microseconds up
// to now and returns their number.
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
	g.rotateAt = now
	g.all.use.Since, g.history.Since = min(g.all.use.Since, now), min(g.history.Since, now)
	for _, l := range g.lists {
		l.use.Since = min(l.use.Since, now)
		g.fill(l)
	}
	for _, c := range g.counters {
		c.asked = min(c.asked, now)
		counted := c.Counter
		moved := counted.Restamp(now)
		if !g.keepsEntries() {
			c.Counter = counted
			if moved {
				changed++
			}
			continue
		}
		g.fillCounter(c, c.Length)
		if c.Past+c.Present < counted.Past+counted.Present { // it has counted before the log kept entries
			c.Counter = counted
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
		end = begin + min(end-begin, p.Most) // begin+p.Most may overflow
	}
	var page []quota.Entry
	for place := begin; place < end; place++ {
		e := g.entries.at(place)
		label := g.labels[e.label]
		page = append(page, quota.Entry{At: decide.Time(g.all.records.at(place).stamp), ID: e.id, Kind: e.kind, Method: label.method,
			Caller: label.caller, Units: quota.Units(e.units), Calls: quota.Units(e.calls)})
	}
	return page
}
