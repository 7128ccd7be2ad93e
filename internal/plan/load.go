package plan

import (
	"slices"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// load is what a schedule and the ledger charge to one budget over time. All
// ticks of a region charge the same amount.
type load struct {
	budget  *quota.Budget
	from    int64        // start of the plan
	ticks   series       // amounts of all regions' ticks
	held    series       // amounts of the ledger's entries
	regions []regionLoad // see setTicks
	floors  []floorLoad
	since   func(at int64) int64 // start of the window that ends at at
	day     func(at int64) dayBounds
}

// regionLoad holds the amounts of one region's ticks.
type regionLoad struct {
	series
	cursors [2]cursor
	open    int64 // the unused part of the region's floor, set by reservedAt
}

// floorLoad is a floor of the budget and the amounts that count towards it.
type floorLoad struct {
	name    string
	units   int64
	region  int    // index in Input.Regions; -1 if the region is not in the schedule
	held    series // amounts of the region's entries in the ledger
	cursors [2]struct{ ticks, held cursor }
}

// dayBounds is a quota.Day in microseconds.
type dayBounds struct{ start, since, next, opens int64 }

// newLoad returns the load of a budget, given by its index, without ticks.
func (in *Input) newLoad(budget int) *load {
	l := &load{budget: &in.Budgets[budget], from: in.From.UnixMicro(), regions: make([]regionLoad, len(in.Regions))}
	for name, units := range l.budget.Floor {
		region := slices.IndexFunc(in.Regions, func(r jobs.Region) bool { return r.Name == name })
		l.floors = append(l.floors, floorLoad{name: name, units: int64(units), region: region})
	}
	in.eachHeld(budget, func(e *HeldEntry, amount int64) {
		l.held.add(e.At.UnixMicro(), amount)
		for i := range l.floors {
			if f := &l.floors[i]; f.name == e.Caller.Region {
				f.held.add(e.At.UnixMicro(), amount)
			}
		}
	})
	l.setWindow()
	return l
}

// setTicks replaces the ticks by those of d, for the budget with the given
// index. It fills l.regions only if byRegion is set or the budget has floors.
func (l *load) setTicks(d *demand, budget int, byRegion bool) {
	l.ticks.reset()
	for i := range l.regions {
		l.regions[i].reset()
	}
	byRegion = byRegion || len(l.floors) > 0
	for _, t := range d.ticks {
		if weight := d.regions[t.region].weights[budget]; weight > 0 {
			l.ticks.add(t.at, weight)
			if byRegion {
				l.regions[t.region].add(t.at, weight)
			}
		}
	}
}

// setWindow sets l.since and l.day.
func (l *load) setWindow() {
	w := l.budget.Window
	var last dayBounds
	l.day = func(at int64) dayBounds {
		if at < last.start || at >= last.opens {
			d := w.Day(fromMicros(at))
			last = dayBounds{d.Start.UnixMicro(), d.Since.UnixMicro(), d.Next.UnixMicro(), d.Opens.UnixMicro()}
		}
		return last
	}
	length := w.Length().Microseconds()
	l.since = func(at int64) int64 { return at - length + 1 }
	if w.Kind() == engine.Calendar {
		l.since = func(at int64) int64 { return l.day(at).since }
	}
}

func (l *load) isCharged() bool { return len(l.ticks.at) > 0 }

// peak says how full a budget gets.
type peak struct {
	used int64 // the most that the window holds
	at   int64 // when it first does
	// the most of the limit that one call requires: all that is used with it, and the floors of
	// other regions
	need   int64
	excess float64 // sum over the ticks of (need - limit) / limit where it is positive; 0 if the schedule fits
}

// findPeak returns how full the budget gets if each start may be late by up to
// late microseconds, independently of the others.
//
// A start that was due at t may lie in the window [S, T] if t <= T and
// t+late >= S, and all such starts may lie in it together. A start that is due
// after T does not add to it. So the fullest windows end when a start is due.
func (l *load) findPeak(late int64) peak {
	switch l.budget.Window.Kind() {
	case engine.Bucket:
		return l.findBucketPeak(late)
	case engine.InFlight: // how long calls take is not known
		return peak{at: l.from}
	}
	p := peak{used: l.held.sum(l.since(l.from), l.from), at: l.from}
	firstTick, firstHeld := 0, 0
	for i, at := range l.ticks.at {
		if i+1 < len(l.ticks.at) && l.ticks.at[i+1] == at {
			continue // counted with the last tick of this time
		}
		since := l.since(at)
		for l.ticks.at[firstTick] < since-late {
			firstTick++
		}
		for firstHeld < len(l.held.at) && l.held.at[firstHeld] < since {
			firstHeld++
		}
		used := l.ticks.total[i+1] - l.ticks.total[firstTick]
		if n := len(l.held.at); n > 0 {
			used += l.held.total[n] - l.held.total[firstHeld]
		}
		need := used
		if len(l.floors) > 0 {
			need = l.needAt(at, late, used)
		}
		p.add(at, used, need, int64(l.budget.Limit))
	}
	return p
}

// add takes what is used and needed at one time into account.
func (p *peak) add(at, used, need, limit int64) {
	if used > p.used {
		p.used, p.at = used, at
	}
	p.need = max(p.need, need)
	if over := need - limit; over > 0 {
		p.excess += float64(over) / float64(limit)
	}
}

// needAt returns the most of the limit that a call at the given time
// requires: used, which includes the call, and the floors of other regions.
// The floors' share never falls when more is used, so used is taken at its
// highest. If floors end before the day does, those of the next day apply
// from its margin on.
func (l *load) needAt(at, late, used int64) int64 {
	since, until := l.since(at), l.budget.FloorUntil.Microseconds()
	if until == 0 {
		return used + l.reservedAt(0, at, late, since)
	}
	d := l.day(at)
	need := used
	if at < d.next-until {
		need += l.reservedAt(0, at, late, since)
	}
	if then := max(at, d.next); then <= at+late {
		usedNextDay := l.ticks.sum(d.next-late, then) + l.held.sum(d.next, then)
		need = max(need, usedNextDay+l.reservedAt(1, then, late, d.next))
	}
	return need
}

// reservedAt returns the most that floors reserve for other regions when a
// region starts at the given time. set selects the cursors: callers that ask
// about two days in turn use one set for each.
func (l *load) reservedAt(set int, at, late, since int64) int64 {
	all := int64(0)
	for i := range l.floors {
		f := &l.floors[i]
		used := f.held.sumFrom(&f.cursors[set].held, since, at)
		if f.region >= 0 {
			used += l.regions[f.region].sumFrom(&f.cursors[set].ticks, since-late, at)
		}
		open := max(0, f.units-used)
		if all += open; f.region >= 0 {
			l.regions[f.region].open = open
		}
	}
	most := int64(0)
	for i := range l.regions {
		if r := &l.regions[i]; r.sumFrom(&r.cursors[set], at-late, at) > 0 {
			most = max(most, all-r.open)
		}
	}
	return most
}

// usedAt returns how much of some ticks and entries the window holds at a time.
func (l *load) usedAt(at int64, ticks, held *series) quota.Units {
	since := l.since(at)
	return quota.Units(ticks.sum(since, at) + held.sum(since, at))
}
