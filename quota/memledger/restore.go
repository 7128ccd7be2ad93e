package memledger

import (
	"math"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// restore merges a restoration into the log.
func (g *log) restore(r *quota.Restoration, now int64) quota.RestoreResult {
	g.Now = now
	g.recordHistory(r.History)
	var done quota.RestoreResult
	if g.keepsEntries() {
		restorer := decide.Restorer{
			Entries:    g.page(decide.Page{From: math.MinInt64, Until: math.MaxInt64, Most: math.MaxInt}),
			Statements: g.statements,
			Epoch:      g.epoch,
			Now:        decide.Time(now),
			Oldest:     decide.Time(now - decide.Retain(g.horizon)),
		}
		done = restorer.Restore(r)
		g.statements, g.epoch = restorer.Statements, restorer.Epoch
		g.rebuild(restorer.Entries, restorer.Uncounted)
	}
	done.Known.Account = r.Account
	done.Known.Key = r.Key
	done.Known.Epoch = g.epoch
	if done.Known.At.IsZero() {
		done.Known.At = decide.Time(g.newest)
	}
	return done
}

// rebuild replaces the entries of the log, and computes its lists and counters
// from them. Counters have not counted uncounted before.
func (g *log) rebuild(entries, uncounted []quota.Entry) {
	g.entries, g.all = ring[entry]{}, list{coverage: everything, use: g.all.use, base: g.all.base, newest: record{total: g.all.base}}
	g.labels, g.numbers = nil, nil
	g.free, g.latest = nil, 0
	for _, e := range entries {
		number := g.labelNumber(label{e.Method, e.Caller})
		g.labels[number].entries++
		g.entries.push(entry{id: e.ID, units: uint32(e.Units), label: number, calls: uint32(e.Calls), kind: e.Kind})
		g.all.add(e.At.UnixMicro(), int64(e.Units))
	}
	for _, l := range g.lists {
		g.fill(l)
	}
	for _, c := range g.counters {
		counted := c.Counter
		counted.AddUncounted(uncounted, c.coverage)
		g.fillCounter(c, c.Length)
		c.KeepHigher(&counted) // it may have counted before the log kept entries
	}
	g.views, g.newest = nil, max(g.newest, g.all.newest.stamp)
}
