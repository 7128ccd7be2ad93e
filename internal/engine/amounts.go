package engine

import "slices"

// maxColumns is how many named measures the records of a log can have, of all
// configurations that it has seen.
const maxColumns = 64

// amount returns what an entry counts in a measure.
func (f *fold) amount(n uint32, measure string) int64 {
	e := f.at(n)
	switch measure {
	case "", MeasureUnits:
		return e.units
	case MeasureCalls:
		return int64(e.calls)
	}
	column := slices.Index(f.measures, measure)
	if column < 0 || int(n-f.base) >= len(f.columns[column]) {
		return 0
	}
	return f.columns[column][n-f.base]
}

// setMore records the amounts of named measures.
func (f *fold) setMore(n uint32, amounts []Amount) {
	for i := range f.columns {
		if int(n-f.base) < len(f.columns[i]) {
			f.columns[i][n-f.base] = 0
		}
	}
	for _, a := range amounts {
		column := slices.Index(f.measures, a.Measure)
		if column < 0 {
			if len(f.measures) == maxColumns {
				continue
			}
			column = len(f.measures)
			f.measures = append(f.measures, a.Measure)
			f.columns = append(f.columns, nil)
		}
		for len(f.columns[column]) <= int(n-f.base) {
			f.columns[column] = append(f.columns[column], 0)
		}
		f.columns[column][n-f.base] = a.N
	}
}

// Or returns a with the amounts of named measures that only other has, as far
// as a record has room for them.
func (a Amounts) Or(other Amounts) Amounts {
	a.More = slices.Clone(a.More)
	for _, o := range other.More {
		isOnly := !slices.ContainsFunc(a.More, func(m Amount) bool { return m.Measure == o.Measure })
		if isOnly && len(a.More) < MaxMeasures {
			a.More = append(a.More, o)
		}
	}
	return a
}

// isOpen reports whether a grant has a lease that was not settled.
func (f *fold) isOpen(id ID, now int64) bool {
	n, ok := f.find(id)
	return ok && f.at(n).settledAt == 0 && f.leases[n] > now
}

// amounts returns what an entry counts in all measures.
func (f *fold) amounts(n uint32) Amounts {
	e := f.at(n)
	a := Amounts{Units: e.units, Calls: int64(e.calls)}
	for _, m := range f.measures {
		if amount := f.amount(n, m); amount != 0 {
			a.More = append(a.More, Amount{m, amount})
		}
	}
	return a
}
