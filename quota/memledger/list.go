package memledger

import (
	"sort"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// list is the running total of what one coverage counts.
type list struct {
	coverage *quota.Coverage
	horizon  int64

	records []record // from head on
	head    int
	base    int64 // total before the first record
	total   int64 // after the last

	periods map[int64]*decide.Periods // by length, for estimates
}

type record struct{ stamp, total int64 }

// amount returns what an entry counts for here.
func (l *list) amount(units, calls int64) int64 {
	if l.coverage.Measure == quota.Calls {
		return calls
	}
	return units
}

func (l *list) add(stamp, amount int64) {
	l.total += amount
	l.records = append(l.records, record{stamp, l.total})
	for length, p := range l.periods {
		p.Add(length, stamp, amount)
	}
}

// count keeps two counters of that length from now on, begun from the records.
func (l *list) count(length int64) {
	if l.periods[length] != nil {
		return
	}
	p, before := &decide.Periods{}, l.base
	for _, r := range l.records[l.head:] {
		p.Add(length, r.stamp, r.total-before)
		before = r.total
	}
	if l.periods == nil {
		l.periods = map[int64]*decide.Periods{}
	}
	l.periods[length] = p
}

func (l *list) trim(now int64) {
	for l.head < len(l.records) && l.records[l.head].stamp <= now-decide.Retain(l.horizon) {
		l.base = l.records[l.head].total
		l.head++
	}
	if l.head > 64 && l.head > len(l.records)/2 {
		l.records = append(l.records[:0], l.records[l.head:]...)
		l.head = 0
	}
}

// correct adds delta to the record of that stamp and to all totals behind it.
func (l *list) correct(stamp, delta int64) {
	i := l.find(stamp)
	if delta == 0 || i == len(l.records) || l.records[i].stamp != stamp {
		return
	}
	for ; i < len(l.records); i++ {
		l.records[i].total += delta
	}
	l.total += delta
	for length, p := range l.periods {
		p.Correct(length, stamp, delta)
	}
}

// find returns the place of the first record stamped at or after an instant.
func (l *list) find(at int64) int {
	return l.head + sort.Search(len(l.records)-l.head, func(i int) bool { return l.records[l.head+i].stamp >= at })
}

// Last implements decide.List.
func (l *list) Last() int64 { return l.total }

// Before implements decide.List.
func (l *list) Before(at int64) int64 {
	if i := l.find(at); i > l.head {
		return l.records[i-1].total
	}
	return l.base
}

// Reach implements decide.List.
func (l *list) Reach(total int64) int64 {
	live := l.records[l.head:]
	return live[sort.Search(len(live)-1, func(i int) bool { return live[i].total >= total })].stamp
}

// Periods implements decide.Counts.
func (l *list) Periods(length, now int64) decide.Periods { return l.periods[length].At(length, now) }
