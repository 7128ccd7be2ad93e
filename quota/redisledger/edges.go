package redisledger

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// edge is where a window begins in its list, as the store last said. It spares
// the store a search, see open in lua/windows.lua. It holds for windows that
// begin between from and first, until the account's head changes.
type edge struct {
	from, first int64 // µs; first is the first record's timestamp, 0 if only place is known
	before      int64 // the running total before that record
	counts      int64 // that record's amount
	place       int64 // that record's index, before any trimming since
	at          int64 // when the store said so, by this process' clock, µs
}

// edgeLasts is how long an edge is used. It bounds the harm when a failover
// loses the records that an edge is about.
const edgeLasts = int64(time.Second / time.Microsecond)

// edgeOf returns the edge of a charge, the zero edge if there is none. Only the
// account's own log has edges.
func (p *spendBatch) edgeOf(c *quota.Charge) edge {
	if p.scope != ownLog {
		return edge{}
	}
	known := p.edges[c]
	if age := p.at - known.at; age < 0 || age >= edgeLasts {
		known.first = 0
	}
	return known
}

// keepEdges reads the edges at the end of an answer and stores them.
func (p *spendBatch) keepEdges(a *packed) {
	if a.rest == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.edges == nil || len(p.edges) > maxShapes {
		p.edges = map[*quota.Charge]edge{}
	}
	for a.rest != "" && !a.bad {
		c := p.readCharge(a)
		e := edge{first: a.number(7), before: a.number(6), counts: a.number(4), place: a.number(4), at: p.at}
		if c == nil {
			a.bad = true
			return
		}
		if e.from = p.now - c.Window.Length().Microseconds() + 1; c.Window.Kind() == quota.KindDaily {
			e.from = p.day(c.Window, p.now).Since
		}
		if p.accountCache.head == p.head {
			p.edges[c] = e
		}
	}
}
