package plan

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// series is what counts for a budget, oldest first, as a running total.
type series struct {
	at    []int64
	total []int64 // after so many; one more than at
}

func (s *series) add(at, amount int64) {
	if s.total == nil {
		s.total = append(s.total, 0)
	}
	s.at, s.total = append(s.at, at), append(s.total, s.total[len(s.at)]+amount)
}

// sum returns what counts from one instant to another, both included.
func (s *series) sum(from, until int64) int64 {
	if s == nil || len(s.at) == 0 || until < from {
		return 0
	}
	return s.total[s.place(until+1)] - s.total[s.place(from)]
}

// place returns how many come before an instant.
func (s *series) place(at int64) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i] >= at })
}

// span is where a sum was looked up last: who asks for one instant after the
// other finds the next one near.
type span struct{ from, until int }

// near is sum, from where it was looked up last.
func (s *series) near(last *span, from, until int64) int64 {
	if len(s.at) == 0 || until < from {
		return 0
	}
	last.from, last.until = s.walk(last.from, from), s.walk(last.until, until+1)
	return s.total[last.until] - s.total[last.from]
}

// walk is place, from a place on.
func (s *series) walk(i int, at int64) int {
	for i = min(i, len(s.at)); i < len(s.at) && s.at[i] < at; {
		i++
	}
	for i > 0 && s.at[i-1] >= at {
		i--
	}
	return i
}

func (s *series) empty() { s.at, s.total = s.at[:0], append(s.total[:0], 0) }

// question is one budget, asked of what a schedule asks for and of what the
// ledger holds. Each tick of a region counts for as much as its others.
type question struct {
	budget *quota.Budget
	from   int64
	ticks  series  // of all regions
	held   series  // what the ledger holds
	own    []part  // of the ticks, each region's; filled when it is needed
	floors []floor // of the budget
	since  func(at int64) int64
	day    func(at int64) day
}

// part is one region's.
type part struct {
	series
	due  [2]span
	open int64 // of its floor
}

// floor is what the budget keeps for a region.
type floor struct {
	name   string
	units  int64
	region int    // its place; -1 when it is not in the schedule
	held   series // what the ledger holds of it
	seen   [2]struct{ ticks, held span }
}

// day is a quota.Day in microseconds.
type day struct{ start, since, next, opens int64 }

// question returns the budget at a place with what the ledger holds.
func (in *Input) question(place int) *question {
	q := &question{budget: &in.Budgets[place], from: in.From.UnixMicro(), own: make([]part, len(in.Regions))}
	for name, units := range q.budget.Floor {
		region := slices.IndexFunc(in.Regions, func(r jobs.Region) bool { return r.Name == name })
		q.floors = append(q.floors, floor{name: name, units: int64(units), region: region})
	}
	in.held(place, func(e *quota.Entry, amount int64) {
		q.held.add(e.At.UnixMicro(), amount)
		for i := range q.floors {
			if f := &q.floors[i]; f.name == e.Caller.Region {
				f.held.add(e.At.UnixMicro(), amount)
			}
		}
	})
	q.windows()
	return q
}

// fill enters the ticks of a demand; detailed tells the regions apart, which
// floors need as well.
func (q *question) fill(d *demand, place int, detailed bool) {
	q.ticks.empty()
	for i := range q.own {
		q.own[i].empty()
	}
	detailed = detailed || len(q.floors) > 0
	for _, t := range d.ticks {
		if weight := d.passes[t.region].weights[place]; weight > 0 {
			q.ticks.add(t.at, weight)
			if detailed {
				q.own[t.region].add(t.at, weight)
			}
		}
	}
}

// windows sets how the budget's window is asked.
func (q *question) windows() {
	w := q.budget.Window
	var last day
	q.day = func(at int64) day {
		if at < last.start || at >= last.opens {
			d := w.Day(instant(at))
			last = day{d.Start.UnixMicro(), d.Since.UnixMicro(), d.Next.UnixMicro(), d.Opens.UnixMicro()}
		}
		return last
	}
	length := w.Length().Microseconds()
	q.since = func(at int64) int64 { return at - length + 1 }
	if w.Kind() == quota.KindDaily {
		q.since = func(at int64) int64 { return q.day(at).since }
	}
}

func (q *question) touched() bool { return len(q.ticks.at) > 0 }

// answer is how full a budget gets.
type answer struct {
	peak   int64   // the most that its window holds
	at     int64   // when first
	need   int64   // the most that a call may find taken, itself and what is kept for others included
	excess float64 // by how much of the limit the ticks find it too full, added up over the ticks; 0: never
}

// ask returns how full the budget gets when each start is late by up to so many
// microseconds, each by itself.
//
// At an instant T a start that was due at t may lie in a window that counts
// from S on if t <= T and t+late >= S, and all that may, may at once: each
// moves by itself. What is due later than T makes it no fuller, so the fullest
// instants are those at which something is due; those after them only lose.
func (q *question) ask(late int64) answer {
	if q.budget.Window.Estimate() {
		return q.askEstimate(late)
	}
	a := answer{peak: q.held.sum(q.since(q.from), q.from), at: q.from}
	first, held := 0, 0
	for i, at := range q.ticks.at {
		if i+1 < len(q.ticks.at) && q.ticks.at[i+1] == at {
			continue // with the last that is due at once
		}
		since := q.since(at)
		for q.ticks.at[first] < since-late {
			first++
		}
		for held < len(q.held.at) && q.held.at[held] < since {
			held++
		}
		used := q.ticks.total[i+1] - q.ticks.total[first]
		if n := len(q.held.at); n > 0 {
			used += q.held.total[n] - q.held.total[held]
		}
		need := used
		if len(q.floors) > 0 {
			need = q.beside(at, late, used)
		}
		q.note(&a, at, used, need)
	}
	return a
}

func (q *question) note(a *answer, at, used, need int64) {
	if used > a.peak {
		a.peak, a.at = used, at
	}
	a.need = max(a.need, need)
	if over := need - int64(q.budget.Limit); over > 0 {
		a.excess += float64(over) / float64(q.budget.Limit)
	}
}

// beside returns the most that a call made at an instant may find taken, itself and the
// floors of other regions included. It never falls when more is used, so it is
// the most when all is in the window that may be. Where floors end before the
// day does, those of the next day hold again from its margin on.
func (q *question) beside(at, late, used int64) int64 {
	since, until := q.since(at), q.budget.FloorUntil.Microseconds()
	if until == 0 {
		return used + q.kept(0, at, late, since)
	}
	d := q.day(at)
	need := used
	if at < d.next-until {
		need += q.kept(0, at, late, since)
	}
	if then := max(at, d.next); then <= at+late {
		need = max(need, q.ticks.sum(d.next-late, then)+q.held.sum(d.next, then)+q.kept(1, then, late, d.next))
	}
	return need
}

// kept returns the most that is kept from a region that may start at an
// instant. Who asks for two days in turn gives each a number.
func (q *question) kept(n int, at, late, since int64) int64 {
	all := int64(0)
	for i := range q.floors {
		f := &q.floors[i]
		used := f.held.near(&f.seen[n].held, since, at)
		if f.region >= 0 {
			used += q.own[f.region].near(&f.seen[n].ticks, since-late, at)
		}
		open := max(0, f.units-used)
		if all += open; f.region >= 0 {
			q.own[f.region].open = open
		}
	}
	most := int64(0)
	for i := range q.own {
		if own := &q.own[i]; own.near(&own.due[n], at-late, at) > 0 {
			most = max(most, all-own.open)
		}
	}
	return most
}

// askEstimate is ask for a counter: a start counts whole if it may lie in the
// present period, and else by the share that still shows of the one before.
func (q *question) askEstimate(late int64) answer {
	a := answer{peak: q.estimate(q.from, late, &q.ticks, &q.held), at: q.from}
	for _, at := range q.ticks.at {
		used := q.estimate(at, late, &q.ticks, &q.held)
		q.note(&a, at, used, used)
	}
	return a
}

func (q *question) estimate(at, late int64, ticks, held *series) int64 {
	length := q.budget.Window.Length().Microseconds()
	start := at - at%length
	present := ticks.sum(start-late, at) + held.sum(start, at)
	before := ticks.sum(start-length-late, start-late-1) + held.sum(start-length, start-1)
	hi, lo := bits.Mul64(uint64(before), uint64(start+length-at))
	quo, rest := bits.Div64(hi, lo, uint64(length))
	if rest > 0 {
		quo++
	}
	return present + int64(quo)
}
