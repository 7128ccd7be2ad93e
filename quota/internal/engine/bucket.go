package engine

// bucketMeter counts what a bucket lacks: it holds at most the budget's limit,
// each call takes its amount, and Restore units return in each Every. What it
// lacks is kept in parts of a unit, of which a unit has Every.
type bucketMeter struct {
	window    Window
	series    *series
	empty     int64       // what it lacks at most
	isTrimmed func() bool // older records are missing: it may lack all before the oldest
	marks     []lackMark  // at some of the points, in order; the first is before all of them
}

// lackMark is what the bucket lacks after its first points.
type lackMark struct {
	points int
	at     int64
	lack   int64
}

// marksEvery is how many points are between two marks.
const marksEvery = 64

func newBucketMeter(b *Budget, main *series, isTrimmed func() bool) *bucketMeter {
	m := &bucketMeter{window: b.Window, series: main, empty: b.Limit * b.Window.Every, isTrimmed: isTrimmed}
	main.watchers = append(main.watchers, m)
	return m
}

// bucketHorizon is the time in which an empty bucket is full again, twice: what
// is older matters only if the bucket has been used up all the time since.
func (w *Window) bucketHorizon(limit int64) int64 {
	return 2 * limit * w.Every / max(w.Restore, 1)
}

func (m *bucketMeter) invalidate(from int) {
	for len(m.marks) > 0 && m.marks[len(m.marks)-1].points > from {
		m.marks = m.marks[:len(m.marks)-1]
	}
}

// lack returns what the bucket lacks at a time, in parts.
func (m *bucketMeter) lack(now int64) int64 {
	m.series.sort()
	points := m.series.points
	var mark lackMark
	if len(points) > 0 && m.isTrimmed() {
		mark = lackMark{at: points[0].at, lack: m.empty}
	}
	if n := len(m.marks); n > 0 {
		mark = m.marks[n-1]
	}
	for mark.points < len(points) && points[mark.points].at <= now {
		p := points[mark.points]
		mark = lackMark{mark.points + 1, p.at, m.after(mark, p.at) + p.amount*m.window.Every}
		if mark.points%marksEvery == 0 {
			m.marks = append(m.marks, mark)
		}
	}
	lack := m.after(mark, now)
	for _, p := range points[mark.points:] { // stamped ahead of the clock
		lack += p.amount * m.window.Every
	}
	return lack
}

// after returns what is lacking at a later time if nothing is taken.
func (m *bucketMeter) after(mark lackMark, at int64) int64 {
	restored := max(0, at-mark.at)
	if mark.lack == 0 || restored > mark.lack/m.window.Restore {
		return 0
	}
	return mark.lack - restored*m.window.Restore
}

func (m *bucketMeter) used(now int64) int64 {
	return (m.lack(now) + m.window.Every - 1) / m.window.Every
}

func (m *bucketMeter) load(now int64) int64 { return m.used(now) }

func (m *bucketMeter) until(int64) int64 { return 0 }

func (m *bucketMeter) retry(now, most int64) int64 {
	short := m.lack(now) - max(0, most)*m.window.Every
	if short <= 0 {
		return now
	}
	return now + (short+m.window.Restore-1)/m.window.Restore
}

func (m *bucketMeter) returns(now int64) (at, amount int64) {
	used := m.used(now)
	if used == 0 {
		return 0, 0
	}
	at = m.retry(now, used-1)
	return at, 1
}

func (m *bucketMeter) steps(now int64, most int) (steps []loadStep) {
	used := m.used(now)
	size := max(1, used/int64(max(1, most)))
	for load := used - size; load >= 0 && len(steps) < most; load -= size {
		steps = append(steps, loadStep{m.retry(now, load), load})
	}
	return steps
}
