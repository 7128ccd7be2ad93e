package engine

import (
	"cmp"
	"maps"
	"slices"
)

// maxTickets is how many tickets are kept before those are dropped that ended
// longer ago than a ticket holds.
const maxTickets = 256

// controls are the records that hold until a time, and change decisions
// otherwise than by amounts. The latest record of a name holds, by its time and
// then by its id.
type controls struct {
	cooldowns map[cooldownID]control
	claims    map[string][]control // in the order of their times
	limits    map[limitID]control
	tickets   map[ID]*ticket
	moved     control
	lastEnd   int64  // no cooldown ends later
	version   uint64 // rises when limits change
}

type cooldownID struct {
	budget string // empty for the account
	key    string // empty for all keys
}

type limitID struct{ budget, config string }

// control is a record with its position in the log.
type control struct {
	Record
	position uint64
	keys     map[string]int64 // of a limit, the keys that have another one
}

// ticket is a caller that waits. It is over at until, or once it was served.
type ticket struct {
	first  Record
	until  int64
	served bool
}

func newControls() controls {
	return controls{cooldowns: map[cooldownID]control{}, claims: map[string][]control{},
		limits: map[limitID]control{}, tickets: map[ID]*ticket{}}
}

// replaces reports whether r holds instead of an earlier record of its name.
func (c *control) replaces(before *control) bool {
	if c.At != before.At {
		return c.At > before.At
	}
	return before.ID.before(c.ID)
}

// put records c under a name, if it is the latest. One that was added before it
// was in the log gets its position.
func put[N comparable](all map[N]control, name N, c control) {
	before, ok := all[name]
	switch {
	case !ok || c.replaces(&before):
		all[name] = c
	case before.ID == c.ID && before.position == 0:
		before.position = c.position
		all[name] = before
	}
}

func (c *controls) add(r *Record, position uint64) {
	added := control{Record: *r, position: position}
	switch r.Kind {
	case KindCooldown:
		c.lastEnd = max(c.lastEnd, r.Until)
		put(c.cooldowns, cooldownID{r.Name, r.Labels.Key}, added)
	case KindClaim:
		c.addClaim(added)
	case KindLimit:
		c.version++
		added.keys = unpackKeys(r.Text)
		put(c.limits, limitID{r.Name, r.Owner}, added)
	case KindMoved:
		if c.moved.ID == (ID{}) || added.replaces(&c.moved) {
			c.moved = added
		}
	case KindTicket:
		c.addTicket(r)
	}
}

func (c *controls) addTicket(r *Record) {
	if len(c.tickets) >= maxTickets {
		maps.DeleteFunc(c.tickets, func(_ ID, t *ticket) bool { return t.until+ticketHolds < r.At })
	}
	id := cmp.Or(r.Ref, r.ID)
	t := c.tickets[id]
	if t == nil {
		t = &ticket{first: *r}
		t.first.ID = id
		c.tickets[id] = t
	}
	if r.ID == id {
		t.first = *r
	}
	t.until = max(t.until, r.Until)
}

// served ends a ticket: its caller was granted, or has left.
func (c *controls) serve(id ID) {
	if t := c.tickets[id]; t != nil {
		t.served = true
	} else {
		c.tickets[id] = &ticket{first: Record{ID: id}, served: true}
	}
}

// cooldown returns the cooldown that is in force for a budget, or for the
// account if budget is empty, and a key: the one that ends last.
func (c *controls) cooldown(budget, key string, now int64) (found control) {
	if now >= c.lastEnd {
		return found
	}
	for _, id := range [...]cooldownID{{budget, ""}, {budget, key}} {
		if held, ok := c.cooldowns[id]; ok && held.Until > now && held.Until > found.Until {
			found = held
		}
	}
	return found
}

// limitInForce is the lowest limit that is in force for a budget. The zero
// value is one that must be found.
type limitInForce struct {
	units int64
	until int64 // 0 if it is the budget's own

	version  uint64 // of the controls by which it was found, and 1 more
	from, to int64  // the time while it is right
}

// limit returns the lowest limit that is in force for a budget, if it is lower
// than the budget's own, and until when: that of another configuration, or of
// the same one if it was changed since.
func (c *controls) limit(g *gauge, now int64) (limit, until int64) {
	b, l := g.budget, &g.limit
	if b.Identity == "" {
		return g.own, 0
	}
	if l.version == c.version+1 && l.from <= now && now < l.to {
		return l.units, l.until
	}
	*l = limitInForce{units: g.own, version: c.version + 1, from: now, to: Never}
	for id, held := range c.limits {
		isOther := id.config != b.Config || held.Value > b.Changed
		if id.budget != b.Identity || !isOther || held.Until <= now {
			continue
		}
		l.to = min(l.to, held.Until)
		if limit := held.limitOf(g.key); limit < l.units {
			l.units, l.until = limit, held.Until
		}
	}
	return l.units, l.until
}

// retention returns how far back configurations need the log.
func (c *controls) retention(now int64) (longest int64) {
	for _, held := range c.limits {
		if held.Name == "" && held.Until > now {
			longest = max(longest, held.Value)
		}
	}
	return longest
}

// holds reports whether a ticket is in force.
func (c *controls) holds(id ID, now int64) bool {
	t := c.tickets[id]
	return t != nil && !t.served && t.until > now
}

// waitingBeside returns how many other processes have had tickets since a time.
func (c *controls) waitingBeside(client uint64, since int64) int64 {
	if len(c.tickets) == 0 {
		return 0
	}
	others := map[uint64]bool{}
	for id, t := range c.tickets {
		if id.Client != client && t.until-ticketHolds > since {
			others[id.Client] = true
		}
	}
	return int64(len(others))
}

// before returns the tickets in force that come before a call: all of them, or
// those before its own.
func (c *controls) before(own ID, priority, now int64) []*ticket {
	if len(c.tickets) == 0 {
		return nil
	}
	mine := c.tickets[own]
	var earlier []*ticket
	for _, t := range c.tickets {
		switch {
		case t.served || t.until <= now || t == mine:
		case mine == nil && t.first.Value >= priority, mine != nil && t.precedes(mine):
			earlier = append(earlier, t)
		}
	}
	slices.SortFunc(earlier, func(a, b *ticket) int { return sign(a.precedes(b)) })
	return earlier
}

// precedes reports whether a ticket comes before another: by priority, then by
// time.
func (t *ticket) precedes(other *ticket) bool {
	a, b := &t.first, &other.first
	switch {
	case a.Value != b.Value:
		return a.Value > b.Value
	case a.At != b.At:
		return a.At < b.At
	}
	return a.ID.before(b.ID)
}

// live returns the records up to a position that still hold, to append them
// again before they are trimmed.
func (c *controls) live(position uint64, now int64) (live []*Record) {
	add := func(held control) {
		if held.position <= position && held.position != 0 && held.Until > now {
			kept := held.Record
			kept.Kept = true
			live = append(live, &kept)
		}
	}
	for _, held := range c.cooldowns {
		add(held)
	}
	for _, records := range c.claims { // of a claim that holds all records matter
		isLive := slices.ContainsFunc(records, func(r control) bool { return r.Until > now })
		for _, r := range records {
			if isLive && r.position <= position && r.position != 0 {
				kept := r.Record
				kept.Kept = true
				live = append(live, &kept)
			}
		}
	}
	for _, held := range c.limits {
		add(held)
	}
	if c.moved.Text != "" && c.moved.position <= position {
		kept := c.moved.Record
		kept.Kept = true
		live = append(live, &kept)
	}
	return live
}

// trim forgets what ended before a time.
func (c *controls) trim(before int64) {
	maps.DeleteFunc(c.cooldowns, func(_ cooldownID, c control) bool { return max(c.Until, c.At) < before })
	for name, records := range c.claims {
		if !slices.ContainsFunc(records, func(c control) bool { return max(c.Until, c.At) >= before }) {
			delete(c.claims, name)
		}
	}
	c.version++
	maps.DeleteFunc(c.limits, func(_ limitID, c control) bool { return max(c.Until, c.At) < before })
	maps.DeleteFunc(c.tickets, func(_ ID, t *ticket) bool { return max(t.until, t.first.At) < before })
}
