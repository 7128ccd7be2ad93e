package plan

// findBucketPeak is findPeak for a bucket: it returns what the bucket lacks at
// most. All starts that are due while it refills may be late together, and the
// first of them on time, so that it refills that much later. Late starts after
// the last one of the plan do not add to it.
func (l *load) findBucketPeak(late int64) (p peak) {
	unit := float64(l.budget.Window.UnitTime().Nanoseconds()) / 1000
	pause := late + l.budget.Window.Margin().Microseconds()
	lack, refills := 0.0, int64(0) // what it lacks, and from when on it refills
	take := func(at int64, amount int64) int64 {
		lack = max(0, lack-float64(max(0, at-refills))/unit)
		if refills = max(refills, at); lack == 0 {
			refills = at + pause
		}
		lack += float64(amount)
		return int64(lack + 0.999_999)
	}
	held := 0
	for i, at := range l.ticks.at {
		for ; held < len(l.held.at) && l.held.at[held] <= at; held++ {
			take(l.held.at[held], l.held.total[held+1]-l.held.total[held])
		}
		used := take(at, l.ticks.total[i+1]-l.ticks.total[i])
		p.add(at, used, used, int64(l.budget.Limit))
	}
	return p
}
