package memledger

import (
	"maps"
	"math"
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Copy returns a ledger on the same clock that holds what this one holds now,
// epochs included. From then on they change independently. It takes time in
// proportion to the number of entries. Use it in a test in which an older copy
// takes the place of a ledger.
func (l *Ledger) Copy() *Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copy()
}

// copy is Copy for a caller that holds mu.
func (l *Ledger) copy() *Ledger {
	c := Open(&Options{Now: l.now})
	c.realTime, c.sweepAt = l.realTime, l.sweepAt
	for name := range l.logs {
		l.copyInto(c, name)
	}
	return c
}

// copyInto copies one log into another ledger, after the account's own, with
// which it shares cooldowns and limits.
func (l *Ledger) copyInto(c *Ledger, name logName) *log {
	if have := c.logs[name]; have != nil {
		return have
	}
	g := l.logs[name]
	cooldowns, limits := map[string]*quota.Cooldown{}, &decide.Limits{Asked: map[string][]decide.AskedLimit{}}
	if name.key != "" {
		unkeyed := l.copyInto(c, logName{account: name.account})
		cooldowns, limits = unkeyed.cooldowns, unkeyed.limits
	} else {
		for budget, cooldown := range g.cooldowns {
			cooldowns[budget] = new(*cooldown)
		}
		for of, asked := range g.limits.Asked {
			limits.Asked[of] = slices.Clone(asked)
		}
	}
	into := newLog(name, c.days, cooldowns, limits)
	into.epoch, into.statements = g.epoch, g.statements
	into.newest, into.Now = g.newest, g.Now
	into.horizon, into.history = g.horizon, g.history
	into.rotateAt = g.rotateAt
	into.all.use, into.all.base = g.all.use, g.all.base
	for _, have := range g.lists {
		into.lists = append(into.lists, &list{coverage: have.coverage, use: have.use})
	}
	for _, have := range g.counters {
		into.counters = append(into.counters, new(*have))
	}
	into.clients = maps.Clone(g.clients)
	for client, last := range into.clients {
		into.clients[client] = &lastBatch{last.seq, maps.Clone(last.stamps)}
	}
	into.rebuild(g.page(decide.Page{From: math.MinInt64, Until: math.MaxInt64, Most: math.MaxInt}), nil)
	c.logs[name] = into
	return into
}
