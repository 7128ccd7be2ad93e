package memledger

import (
	"sort"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// log is all calls of one account, or of one key of it.
type log struct {
	name    logName
	entries []entry // from head on
	head    int
	last    int64 // the newest stamp ever given
	horizon int64 // the longest that an entry can matter

	lists     map[string]*list    // by coverage
	labels    map[label]*labelled // which lists a call is recorded in; emptied when a list is added
	cooldowns map[string]quota.Cooldown
	clients   map[uint64]*granted
}

// entry is one recorded call.
type entry struct {
	stamp int64
	units int64
	calls int64
	id    quota.ID
	label *labelled
}

type label struct {
	method string
	caller quota.Caller
}

type labelled struct {
	label
	lists []*list
}

// granted is what is remembered of a client's last batch.
type granted struct {
	seq    uint64
	stamps map[uint64]int64 // by Seq of the request
}

func newLog(name logName) *log {
	g := &log{name: name, lists: map[string]*list{}, labels: map[label]*labelled{},
		cooldowns: map[string]quota.Cooldown{}, clients: map[uint64]*granted{}}
	if name.key == "" {
		g.horizon = decide.Kept
	}
	return g
}

func (g *log) receipt(id quota.ID, stamp int64) quota.Receipt {
	return quota.Receipt{Account: g.name.account, Key: g.name.key, ID: id, At: time.UnixMicro(stamp).UTC()}
}

// list returns the list of a charge's coverage. A new one, or one that a
// longer window now asks, is filled from the log.
func (g *log) list(charge *quota.Charge, now int64) *list {
	key, horizon := charge.Coverage.Key(), charge.Window.Horizon().Microseconds()
	l := g.lists[key]
	if l == nil || l.horizon < horizon {
		l = g.fill(charge.Coverage, horizon)
		g.lists[key] = l
		g.horizon = max(g.horizon, horizon)
		clear(g.labels)
	}
	if charge.Window.Estimate() {
		l.count(charge.Window.Length().Microseconds())
	}
	l.trim(now)
	return l
}

func (g *log) fill(coverage *quota.Coverage, horizon int64) *list {
	l := &list{coverage: coverage, horizon: horizon}
	for _, e := range g.entries[g.head:] {
		if coverage.Covers(e.label.method, e.label.caller) {
			l.add(e.stamp, l.amount(e.units, e.calls))
		}
	}
	return l
}

// record enters an admitted request into the log and every list that covers it.
func (g *log) record(r *quota.Request, now int64, id quota.ID) int64 {
	stamp := max(now, g.last+1)
	g.add(entry{stamp: stamp, units: int64(r.Units), calls: 1, id: id, label: g.labelled(r.Method, r.Caller)})
	g.trim(now)
	return stamp
}

func (g *log) add(e entry) {
	g.last = e.stamp
	g.entries = append(g.entries, e)
	for _, l := range e.label.lists {
		l.add(e.stamp, l.amount(e.units, e.calls))
	}
}

func (g *log) labelled(method string, caller quota.Caller) *labelled {
	key := label{method, caller}
	have := g.labels[key]
	if have == nil {
		have = &labelled{label: key}
		for _, l := range g.lists {
			if l.coverage.Covers(method, caller) {
				have.lists = append(have.lists, l)
			}
		}
		if len(g.labels) >= 4096 {
			clear(g.labels)
		}
		g.labels[key] = have
	}
	return have
}

// trim drops the entries that no window can see any more.
func (g *log) trim(now int64) {
	for g.head < len(g.entries) && g.entries[g.head].stamp <= now-decide.Retain(g.horizon) {
		g.entries[g.head] = entry{}
		g.head++
	}
	if g.head > 64 && g.head > len(g.entries)/2 {
		g.entries = append(g.entries[:0], g.entries[g.head:]...)
		g.head = 0
	}
}

// correct changes the entry of a receipt.
func (g *log) correct(receipt quota.Receipt, units, calls quota.Units, now int64) error {
	stamp := receipt.At.UnixMicro()
	i := g.find(stamp)
	if i == len(g.entries) || g.entries[i].stamp != stamp || g.entries[i].id != receipt.ID {
		return nil // it has left the log, and with it every window
	}
	e := &g.entries[i]
	more := int64(units) - e.units
	if len(g.entries)-1-i > quota.MaxSettle {
		if more < 0 || int64(calls) < e.calls {
			return quota.ErrStays
		}
		if more > 0 {
			g.add(entry{stamp: max(now, g.last+1), units: more, id: e.id, label: g.labelled(e.label.method, e.label.caller)})
		}
		return nil
	}
	for _, l := range g.lists {
		if l.coverage.Covers(e.label.method, e.label.caller) {
			l.correct(stamp, l.amount(int64(units), int64(calls))-l.amount(e.units, e.calls))
		}
	}
	e.units, e.calls = int64(units), int64(calls)
	return nil
}

// find returns the place of the first entry stamped at or after an instant.
func (g *log) find(at int64) int {
	return g.head + sort.Search(len(g.entries)-g.head, func(i int) bool { return g.entries[g.head+i].stamp >= at })
}

func (g *log) page(from int64, until time.Time) []quota.Entry {
	var page []quota.Entry
	for _, e := range g.entries[g.find(from):] {
		if len(page) == pageSize || !until.IsZero() && e.stamp >= until.UnixMicro() {
			break
		}
		page = append(page, quota.Entry{At: time.UnixMicro(e.stamp).UTC(), ID: e.id, Method: e.label.method,
			Caller: e.label.caller, Units: quota.Units(e.units), Calls: quota.Units(e.calls)})
	}
	return page
}

// cooldown returns the cooldown of a budget that holds now, or nil.
func (g *log) cooldown(budget string, now int64) *quota.Cooldown {
	if len(g.cooldowns) == 0 {
		return nil
	}
	c, ok := g.cooldowns[budget]
	if !ok || c.Until.UnixMicro() <= now {
		return nil
	}
	return &c
}

// remembered returns the grants of a batch that came before, by Seq.
func (g *log) remembered(batch *quota.Batch) map[uint64]int64 {
	if have := g.clients[batch.Client]; have != nil && batch.Client != 0 && have.seq == batch.Seq {
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
		have = &granted{seq: batch.Seq, stamps: map[uint64]int64{}}
		g.clients[batch.Client] = have
	}
	have.stamps[seq] = stamp
}
