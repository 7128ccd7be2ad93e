package engine

// refusal returns why a request is refused, or nil.
func (d *decision) refusal(r *Request, count int64) (worst *Refusal) {
	if r.Force {
		return nil
	}
	for _, no := range d.refusals(r, count) {
		worst = worst.or(no)
	}
	if worst != nil && !worst.Never {
		worst.RetryAt = d.settled(r, count, worst.RetryAt)
	}
	return worst
}

// refusals returns those of all budgets and cooldowns that refuse a request.
func (d *decision) refusals(r *Request, count int64) (all []*Refusal) {
	c := &d.fold.control
	if c.moved.Text != "" {
		moved := c.moved.Record
		return []*Refusal{{Moved: &moved}}
	}
	add := func(no *Refusal) {
		if no != nil {
			all = append(all, no)
		}
	}
	tickets := c.before(r.Ticket, r.Priority, d.now)
	for _, g := range d.gauges {
		add(d.spent(g, r, r.needs(g.budget, count), tickets))
	}
	for _, g := range d.gauges {
		add(d.cooled(g, r))
	}
	add(d.cooled(nil, r))
	return all
}

// Refusals returns why a request would be refused: by each budget and cooldown,
// until it would fit that.
func (v *View) Refusals(r *Request) []*Refusal {
	d := &decision{fold: v.fold, now: v.now}
	d.findGauges(r) // and not ask, whose marks are the next round's
	return d.refusals(r, int64(max(r.Count, 1)))
}

// needs returns how much of a budget must be left for calls of a request.
// Several count as one in flight: a program makes them one after the other. Of
// errors there must be room for one.
func (r *Request) needs(b *Budget, count int64) int64 {
	if b.Window.Kind == InFlight {
		count = 1
	}
	amount := count * r.Amounts.Of(b.Coverage.Measure)
	if b.Coverage.Measure == MeasureErrors {
		return max(amount, 1)
	}
	return amount
}

// settled returns the first time from a time on at which a call fits all of its
// budgets: floors that end for a while may hold again once another budget
// admits it. What fits other budgets now fits them later too.
func (d *decision) settled(r *Request, count, at int64) int64 {
	for range 8 {
		before := at
		for _, g := range d.gauges {
			if g.budget.FloorUntil == 0 {
				continue
			}
			limit, _ := d.fold.control.limit(g, d.now)
			if most := limit - r.needs(g.budget, count); most >= 0 {
				if then := g.retry(at, most); then != Never {
					at = max(at, then)
				}
			}
		}
		if at == before {
			break
		}
	}
	return at
}

// or returns the one of two refusals that says more: that a call never fits, or
// that it fits later. Either may be nil.
func (no *Refusal) or(other *Refusal) *Refusal {
	switch {
	case other == nil:
		return no
	case no == nil:
		return other
	case no.Never != other.Never && other.Never, no.Never == other.Never && other.RetryAt > no.RetryAt:
		return other
	}
	return no
}

// cooled refuses a call while a cooldown of the budget, or of the account if g
// is nil, is in force.
func (d *decision) cooled(g *gauge, r *Request) *Refusal {
	name := ""
	if g != nil {
		name = g.budget.Name
	}
	held := d.fold.control.cooldown(name, r.Labels.Key, d.now)
	if held.Until == 0 {
		return nil
	}
	kept := held.Record
	no := &Refusal{Cooldown: &kept, Needed: r.Amounts.Units, RetryAt: held.Until, Ahead: d.fold.ahead(d.now)}
	if g != nil {
		no.Budget, no.Held = g.budget, d.fold.heldBy(g, d.now)
		no.Needed = r.needs(g.budget, 1)
	}
	return no
}

// spent refuses a call that does not fit a budget beside the tickets of others.
func (d *decision) spent(g *gauge, r *Request, needed int64, tickets []*ticket) *Refusal {
	b := g.budget
	limit, _ := d.fold.control.limit(g, d.now)
	waiting := waitingFor(b, r.Labels.Key, tickets)
	if g.meter.load(d.now)+waiting+needed <= limit {
		return d.paced(g, r, needed)
	}
	no := &Refusal{Budget: b, Needed: needed, Held: d.fold.heldBy(g, d.now), Ahead: d.fold.ahead(d.now)}
	no.Waiting = waiting
	if no.Never = needed > limit-b.reserved(); no.Never {
		return no
	}
	if no.RetryAt = g.retry(d.now, limit-needed); no.RetryAt <= d.now { // it fits but for the tickets
		all := g.retry(d.now, max(0, limit-waiting-needed))
		no.RetryAt = min(max(all, d.now+1), d.now+ticketPoll)
	}
	if open := no.Held.Open; open > 0 && g.meter.load(d.now)-open+needed <= limit {
		no.InFlight = true
		no.RetryAt = min(no.RetryAt, d.now+ticketPoll)
	}
	return no
}

// ticketPoll is how long a call that fits but for the tickets of others, or for
// what calls in flight may give back, waits at most before it looks again.
const ticketPoll = 250_000

// waitingFor returns what tickets wait for in a budget. They do not count
// beside floors, whose units are reserved for the same callers already.
func waitingFor(b *Budget, key string, tickets []*ticket) (units int64) {
	if b.HasFloors {
		return 0
	}
	for _, t := range tickets {
		l := &t.first.Labels
		if !b.Coverage.covers(l) || b.Coverage.ByKey && l.Key != key {
			continue
		}
		units += t.first.Amounts.Of(b.Coverage.Measure)
	}
	return units
}

// longestPace is the most time that a process lets pass between its own calls.
const longestPace = 50_000

// paced lets a process that waits, while others wait too, take its units at a
// tenth more than an equal share of the rate at which all return, and at least
// a call in longestPace. Otherwise the nearest process takes all that returns
// at one time, and does so again when that returns.
func (d *decision) paced(g *gauge, r *Request, needed int64) *Refusal {
	b := g.budget
	if r.Wait == 0 || b.Window.Kind != Sliding {
		return nil
	}
	others := d.fold.control.waitingBeside(d.client, d.now-b.Window.Length)
	pace := (others + 1) * needed * b.Window.Length / g.own * 9 / 10
	next := g.waitedAt + min(longestPace, pace)
	if others == 0 || d.now >= next {
		return nil
	}
	return &Refusal{Budget: b, Needed: needed, Held: d.fold.heldBy(g, d.now), RetryAt: next}
}
