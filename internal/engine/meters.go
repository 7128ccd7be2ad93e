package engine

import (
	"maps"
	"slices"
)

// Budget is a limit as the engine sees it. Its meters are kept by its address,
// so a process uses one Budget for all of its calls, and does not modify it.
type Budget struct {
	Name     string
	Coverage Coverage
	Limit    int64
	Keys     map[string]int64 // of a budget by key, the limits of keys that have not Limit
	Window   Window

	// Floors reserve parts of Limit for the calls of other coverages, in a
	// sliding or calendar window.
	Floors []Floor
	// HasFloors says that the budget has floors for some callers, though perhaps
	// none in Floors for those of this one.
	HasFloors bool
	// FloorUntil ends the floors of a calendar window this long before the
	// next one begins to count, in microseconds; 0 keeps them until the end.
	FloorUntil int64

	// Identity is equal for the budgets of different configurations that are
	// meant to be one, and Config names the configuration. The lowest limit that
	// configurations have for an identity holds. Both may be empty.
	Identity string
	Config   string
	Changed  int64 // when that was changed last, in microseconds since the Unix epoch

	totals  []uint8 // of its measure, computed when it is used first
	waiting []uint8 // with those of tickets
	most    int64   // the highest of its limits
	packed  string  // its Keys, once packed
}

// horizon returns how old a record can be and still count.
func (b *Budget) horizon() int64 {
	if b.most == 0 {
		b.most = b.Limit
		for _, limit := range b.Keys {
			b.most = max(b.most, limit)
		}
	}
	return b.Window.Horizon(b.most)
}

// reserved is the part of the limit that the budget's own calls can never use.
func (b *Budget) reserved() (units int64) {
	if b.FloorUntil == 0 {
		for _, floor := range b.Floors {
			units += floor.Units
		}
	}
	return units
}

// meterID identifies the meter of a budget, or of one key of it.
type meterID struct {
	budget *Budget
	key    string
}

// maxMeters is how many meters a fold keeps. Those of idle keys go first.
const maxMeters = 8192

// gauge is the meter of a budget, or of one key of it, with what decisions need
// of the budget.
type gauge struct {
	meter
	meterID
	own      int64 // the budget's limit for the key
	limit    limitInForce
	leases   meter // of the calls that it counts and that have not ended; nil until it is needed
	waitedAt int64 // when a call of this process that may wait was granted last

	// The fields below are those of the decision that is being made.
	isAsked   bool
	isCharged bool
	isQueued  bool  // all calls that are charged have tickets
	load      int64 // right after the last call that was charged
}

// meter returns the meter of a budget for the calls of a key.
func (f *fold) meter(b *Budget, key string) *gauge {
	id := meterID{budget: b}
	if b.Coverage.ByKey {
		id.key = key
	}
	if g := f.meters[id]; g != nil {
		return g
	}
	if len(f.meters) >= maxMeters {
		f.forgetMeters()
	}
	coverage := b.Coverage
	coverage.inFlight = b.Window.Kind == InFlight
	floors := make([]*series, len(b.Floors))
	for i := range b.Floors {
		floor := b.Floors[i].Coverage
		floor.ByKey = coverage.ByKey
		floors[i] = f.seriesFor(floor, key)
	}
	g := &gauge{meter: newMeter(b, b.limitOf(key), f.seriesFor(coverage, key), floors, f.missingBefore), meterID: id,
		own: b.limitOf(key)}
	f.meters[id] = g
	return g
}

// forgetMeters drops the meters and series of single keys, or all if there are
// many others. Those in use are computed again.
func (f *fold) forgetMeters() {
	isOfKey := func(s *series) bool { return s.coverage.ByKey && s.key != "" }
	maps.DeleteFunc(f.meters, func(id meterID, _ *gauge) bool { return id.key != "" })
	maps.DeleteFunc(f.series, func(_ string, s *series) bool {
		if isOfKey(s) {
			f.byKey[s.key].series = nil
		}
		return isOfKey(s)
	})
	if len(f.meters) > maxMeters/2 {
		clear(f.meters)
		clear(f.series)
		f.shared = nil
	}
	f.covered++
	f.forgotten++
}

// seriesFor returns the series of a coverage, of one key if it is by key.
func (f *fold) seriesFor(c Coverage, key string) *series {
	id := c.Text()
	if c.ByKey {
		id += "\x00" + key
	}
	if s := f.series[id]; s != nil {
		return s
	}
	s := &series{coverage: &c, key: key}
	f.series[id] = s
	if c.ByKey && key != "" {
		records := f.byKey[key]
		if records == nil {
			records = &keyRecords{}
			f.byKey[key] = records
		}
		records.series = append(records.series, s)
	} else {
		f.shared = append(f.shared, s)
		f.covered++
	}
	f.fill(s)
	return s
}

// fill computes the points of a series from the entries.
func (f *fold) fill(s *series) {
	s.points = s.points[:0]
	s.total = 0
	s.unsorted = true
	add := func(n uint32, isCovered bool) {
		if !isCovered || f.at(n).isVoid {
			return
		}
		if at, amount, ok := f.counts(s.coverage, n); ok {
			s.points = append(s.points, point{at, amount, n})
			s.total += amount
		}
	}
	if s.coverage.ByKey && s.key != "" {
		for _, n := range f.byKey[s.key].entries {
			if n >= f.base {
				add(n, s.covers(&f.labels[f.at(n).labels]))
			}
		}
	} else {
		covered := make([]bool, len(f.labels))
		for i := range f.labels {
			covered[i] = s.covers(&f.labels[i])
		}
		s.points = slices.Grow(s.points, f.countCovered(covered))
		for i := range f.entries {
			add(f.base+uint32(i), covered[f.entries[i].labels])
		}
	}
	s.sort()
	if f.tried > 0 {
		s.tried, s.isMixed = f.tried, true
		f.trying = append(f.trying, s)
	}
}

// countCovered returns how many entries have labels that are covered.
func (f *fold) countCovered(covered []bool) (count int) {
	for i := range f.entries {
		if covered[f.entries[i].labels] {
			count++
		}
	}
	return count
}

// covers reports whether the series counts records with these labels.
func (s *series) covers(l *foldLabels) bool {
	return (!s.coverage.ByKey || s.key == l.Key) && s.coverage.covers(&l.Labels)
}

// seriesOf returns the series that count records with these labels.
func (f *fold) seriesOf(labels uint32) []*series {
	l := &f.labels[labels]
	var ofKey []*series
	if l.key != nil {
		ofKey = l.key.series
	}
	if l.covered == f.covered && l.ofKey == len(ofKey) {
		return l.series
	}
	l.series = nil
	l.covered = f.covered
	l.ofKey = len(ofKey)
	for _, all := range [...][]*series{f.shared, ofKey} {
		for _, s := range all {
			if s.covers(l) {
				l.series = append(l.series, s)
			}
		}
	}
	return l.series
}

// rebuild computes all series anew.
func (f *fold) rebuild() {
	for _, s := range f.series {
		f.fill(s)
	}
}

// keys returns the keys that have entries, sorted.
func (f *fold) keys() []string {
	var keys []string
	for key, records := range f.byKey {
		if len(records.entries) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
