package engine

import (
	"cmp"
	"slices"
)

// Past yields the entries of a time that the host's replica has, by timestamps
// from since on and before until, whether the log still has them or not: day by
// day, in the order of their timestamps. What was settled on the day of its
// grant or on the next one counts so. It has two days at a time in memory, and
// stops once yield returns false.
func (a *Account) Past(since, until int64, yield func(Entry) bool) error {
	if a.engine.o.Replica == nil || since >= until {
		return nil
	}
	days, err := a.engine.o.Replica.Past(a.name, since, until)
	if err != nil {
		return err
	}
	f := newFold()
	next := f.base // the first entry that was not considered yet
	yieldTo := func(end uint32) (more bool) {
		var order []uint32
		for ; next < end; next++ {
			if e := f.at(next); e.at >= since && e.at < until && !e.isVoid {
				order = append(order, next)
			}
		}
		slices.SortStableFunc(order, func(x, y uint32) int { return cmp.Compare(f.at(x).at, f.at(y).at) })
		return !slices.ContainsFunc(order, func(n uint32) bool { return !yield(f.entryOf(n)) })
	}
	end := func() uint32 { return f.base + uint32(len(f.entries)) }
	for _, day := range days {
		before := end()
		if err := day(f.batchAnywhere); err != nil {
			return err
		}
		if !yieldTo(before) {
			return nil
		}
		if next < end() {
			f.trim(f.at(next).at)
		}
	}
	yieldTo(end())
	return nil
}
