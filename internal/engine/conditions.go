package engine

import "slices"

// conditions returns what must hold when the records are appended, so that what
// was decided is still right: that at most so much was added since, in the
// totals that rise with a budget's use. What is appended counts from then on,
// so it never makes room for itself: near a limit, where it matters when units
// return, what was tried is taken back first.
func (d *decision) conditions() (conditions []Condition, notAfter int64) {
	conditions, steps := d.conditionsBuffer[:0], d.stepsBuffer[:0]
	for _, g := range d.charged {
		b := g.budget
		limit, _ := d.fold.control.limit(g, d.now)
		if end := g.until(d.now); end != 0 && (notAfter == 0 || end < notAfter) {
			notAfter = end
		}
		if b.totals == nil {
			b.totals = b.Coverage.totals(b.Coverage.Measure)
			b.waiting = b.Coverage.totals(b.Coverage.Measure, measureTickets)
		}
		totals := b.waiting
		if g.isQueued {
			totals = b.totals
		}
		var sum int64
		for _, i := range totals {
			sum += d.fold.totals[i]
		}
		room := limit - g.load
		steps = append(steps, Step{0, sum + room})
		c := Condition{Totals: totals, Steps: steps[len(steps)-1 : len(steps) : len(steps)]}
		if room < limit/4 {
			d.fold.takeBack()
			m := d.fold.meter(b, g.key)
			c.Steps = d.appendSteps(c.Steps, m.steps(d.now, MaxSteps-1), sum+room+m.meter.load(d.now))
		}
		conditions = addCondition(conditions, c)
	}
	d.conditionsBuffer, d.stepsBuffer = conditions, steps
	return conditions, notAfter
}

// appendSteps adds a step for each time at which the load falls, up to the
// latest one that the ledger's clock can say and be believed.
func (d *decision) appendSteps(steps []Step, falls []loadStep, most int64) []Step {
	for _, fall := range falls {
		if fall.at > d.latest {
			break
		}
		last := &steps[len(steps)-1]
		if bound := most - fall.load; bound > last.Most {
			steps = append(steps, Step{fall.at, bound})
		}
	}
	return steps
}

// addCondition adds a condition, unless one of one step implies it.
func addCondition(all []Condition, c Condition) []Condition {
	i := slices.IndexFunc(all, func(other Condition) bool {
		return len(other.Steps) == 1 && len(c.Steps) == 1 && slices.Equal(other.Totals, c.Totals)
	})
	switch {
	case i < 0:
		return append(all, c)
	case c.Steps[0].Most < all[i].Steps[0].Most:
		all[i] = c
	}
	return all
}
