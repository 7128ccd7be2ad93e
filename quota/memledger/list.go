package memledger

import (
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// list is the running total of what one coverage counts.
type list struct {
	coverage *quota.Coverage
	use      decide.RecentHorizon
	records  ring[record]
	base     int64 // total before the first record
	newest   record
}

type record struct{ stamp, total int64 }

func (l *list) add(stamp, amount int64) {
	l.newest = record{stamp, l.newest.total + amount}
	l.records.push(l.newest)
}

// trimAtOnce is how many records one step drops from one list at most, so that
// no caller waits while a whole log expires.
const trimAtOnce = 64

// trim drops records that a horizon no longer needs and returns their number.
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

// adjust adds delta to the total of the record with a stamp and to all
// later totals.
func (l *list) adjust(stamp, delta int64) {
	i := l.find(l.records.tail, stamp)
	if delta == 0 || i == l.records.tail || l.records.at(i).stamp != stamp {
		return
	}
	for ; i < l.records.tail; i++ {
		l.records.at(i).total += delta
	}
	l.newest.total += delta
}

// find returns the place of the first record stamped at or after an instant. It
// is fast if guess is near that place.
func (l *list) find(guess int, at int64) int {
	return l.records.search(guess, func(r *record) bool { return r.stamp >= at })
}

// counter is the counter of one coverage and one counter window.
type counter struct {
	decide.Counter
	coverage *quota.Coverage
	asked    int64 // when it was last used
}

// view is a list for one window. It remembers the place at which the window
// begins, which moves little from one question to the next.
type view struct {
	*list
	coverage *quota.Coverage // the last question's pointer; the next usually has the same
	asked    *quota.Window   // the same for the window
	window   quota.Window
	begins   int
	last     int64 // when it was last asked
}

var _ decide.List = (*view)(nil)

// Newest implements decide.List.
func (v *view) Newest() (stamp, total int64) { return v.newest.stamp, v.newest.total }

// Before implements decide.List. The window usually begins where it did before,
// or one place later.
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
