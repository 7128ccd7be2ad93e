package engine

import "slices"

// clockRecord says that timestamps were of a clock that was wrong: records
// before it in the log, and stamped later than above, count at countAt.
type clockRecord struct {
	id             ID
	position       uint64
	above, countAt int64
}

// applies reports whether a record is corrected.
func (c *clockRecord) applies(r *Record, position uint64) bool {
	isBefore := position != 0 && position < c.position
	return isBefore && r.At > c.above
}

// apply corrects a record. What it says until when moves with it.
func (c *clockRecord) apply(r *Record, position uint64) {
	if !c.applies(r, position) {
		return
	}
	if r.Until > r.At {
		r.Until -= r.At - c.countAt
	}
	r.At = c.countAt
}

// correct folds a clock record, and corrects what is before it in the log.
func (f *fold) correct(r *Record, position uint64) {
	for i := range f.clocks {
		if f.clocks[i].id == r.ID {
			return
		}
	}
	c := clockRecord{r.ID, position, r.Value, r.Until}
	f.clocks = append(f.clocks, c)
	f.maxStamp = r.At
	for i := range f.entries {
		e := &f.entries[i]
		n := f.base + uint32(i)
		before := Record{At: e.at, Until: f.leases[n]}
		if c.applies(&before, uint64(e.position)) {
			c.apply(&before, uint64(e.position))
			if e.at = before.At; f.leases[n] != 0 {
				f.leases[n] = before.Until
			}
		}
		if e.settledAt > c.above {
			e.settledAt = c.countAt
		}
		f.maxStamp = max(f.maxStamp, e.at)
	}
	for _, settle := range f.settles {
		if settle.At > c.above {
			settle.At = c.countAt
		}
	}
	f.control.correct(&c)
	f.rebuild()
}

// correct applies a clock record to all that holds.
func (c *controls) correct(clock *clockRecord) {
	c.version++
	correctAll(c.cooldowns, clock)
	for _, records := range c.claims {
		for i := range records {
			clock.apply(&records[i].Record, records[i].position)
		}
		slices.SortStableFunc(records, func(a, b control) int { return sign(b.replaces(&a)) })
	}
	correctAll(c.limits, clock)
	clock.apply(&c.moved.Record, c.moved.position)
	for _, t := range c.tickets {
		if t.first.At > clock.above {
			t.served = true // its caller writes another one, if it still waits
		}
	}
}

func correctAll[N comparable](all map[N]control, clock *clockRecord) {
	for name, c := range all {
		clock.apply(&c.Record, c.position)
		all[name] = c
	}
}
