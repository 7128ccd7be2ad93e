package memledger

import (
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// list is the running total of what one coverage counts.
type list struct {
	coverage *quota.Coverage
	use      decide.Use
	records  ring[record]
	base     int64 // total before the first record
	newest   record
}

type record struct{ stamp, total int64 }

func (l *list) add(stamp, amount int64) {
	l.newest = record{stamp, l.newest.total + amount}
	l.records.push(l.newest)
}

// trimAtOnce bounds how many records one step drops from one list: when all
// expires at once nobody waits for that.
const trimAtOnce = 64

// trim drops records that a horizon no longer needs, and returns how many.
func (l *list) trim(now, horizon int64) int {
	floor, n := now-decide.Retain(horizon), 0
	for ; n < trimAtOnce && l.records.head < l.records.tail; n++ {
		oldest := l.records.at(l.records.head)
		if oldest.stamp > floor {
			break
		}
		l.base = oldest.total
		l.records.drop()
	}
	return n
}

// correct adds delta to the record of that stamp and to all totals behind it.
func (l *list) correct(stamp, delta int64) {
	i := l.find(l.records.tail, stamp)
	if delta == 0 || i == l.records.tail || l.records.at(i).stamp != stamp {
		return
	}
	for ; i < l.records.tail; i++ {
		l.records.at(i).total += delta
	}
	l.newest.total += delta
}

// find returns the place of the first record stamped at or after an instant,
// which is probably near a guess.
func (l *list) find(guess int, at int64) int {
	return l.records.search(guess, func(r *record) bool { return r.stamp >= at })
}

// counter is what one counter window counts, of one coverage.
type counter struct {
	decide.Counter
	coverage *quota.Coverage
	asked    int64 // when it was last
}

// amount returns what units and calls count for under a coverage.
func amount(c *quota.Coverage, units, calls int64) int64 {
	if c.Measure == quota.Calls {
		return calls
	}
	return units
}

// view is a list as one window sees it. It remembers where the window begins,
// since that moves on by little from one question to the next.
type view struct {
	*list
	coverage *quota.Coverage // both as they were asked last: who asks again does so with the same pointers
	asked    *quota.Window
	window   quota.Window
	begins   int
	last     int64 // when it was asked last
}

var _ decide.List = (*view)(nil)

// Newest implements decide.List.
func (v *view) Newest() (stamp, total int64) { return v.newest.stamp, v.newest.total }

// Before implements decide.List. As a rule the window begins where it did, or
// at the next place.
func (v *view) Before(at int64) int64 {
	if i := v.begins; i > v.records.head && i+1 < v.records.tail {
		if before, first := v.records.at(i-1), v.records.at(i); before.stamp < at {
			switch {
			case first.stamp >= at:
				return before.total
			case v.records.at(i+1).stamp >= at:
				v.begins++
				return first.total
			}
		}
	}
	v.begins = v.find(v.begins, at)
	if v.begins > v.records.head {
		return v.records.at(v.begins - 1).total
	}
	return v.base
}

// Reach implements decide.List.
func (v *view) Reach(total int64) int64 {
	return v.records.at(v.records.search(v.begins, func(r *record) bool { return r.total >= total })).stamp
}
