package engine

// bucketMeter counts what a bucket lacks: it holds at most the budget's limit,
// each call takes its amount, and Restore units return in each Every. What it
// lacks is kept in parts of a unit, of which a unit has Every.
type bucketMeter struct {
	window  Window
	series  *series
	empty   int64        // what it lacks at most
	missing func() int64 // when it may have been empty, since records before that are missing; 0 if none are
	dropped lackMark     // before the first point, since others were dropped; zero: none were
	marks   []lackMark   // at some of the points, in order
}

// lackMark is what the bucket lacks after its first points.
type lackMark struct {
	points  int
	at      int64
	lack    int64
	isGuess bool // it lacks that at most
}

// marksEvery is how many points are between two marks.
const marksEvery = 64

func newBucketMeter(b *Budget, limit int64, main *series, missing func() int64) *bucketMeter {
	m := &bucketMeter{window: b.Window, series: main, empty: limit * b.Window.Every, missing: missing}
	main.watchers = append(main.watchers, m)
	return m
}

// bucketHorizon is the time in which an empty bucket is full again, four times:
// what is older matters only if the bucket has hardly been full since.
func (w *Window) bucketHorizon(limit int64) int64 {
	return 4*(limit*w.Every/max(w.Restore, 1)) + w.Margin
}

// drop keeps what the bucket lacks after the first points, which are dropped.
func (m *bucketMeter) drop(points int) {
	mark := m.start()
	for mark.points < points {
		mark = m.next(mark)
	}
	mark.points = 0
	m.dropped, m.marks = mark, nil
}

func (m *bucketMeter) invalidate(from int) {
	for len(m.marks) > 0 && m.marks[len(m.marks)-1].points > from {
		m.marks = m.marks[:len(m.marks)-1]
	}
}

// lack returns what the bucket lacks at a time, in parts, and from when on it
// refills.
func (m *bucketMeter) lack(now int64) (lack, from int64) {
	m.series.sort()
	points, mark := m.series.points, m.start()
	if n := len(m.marks); n > 0 {
		mark = m.marks[n-1]
	}
	for mark.points < len(points) && points[mark.points].at <= now {
		if mark = m.next(mark); mark.points%marksEvery == 0 {
			m.marks = append(m.marks, mark)
		}
	}
	lack = m.after(mark, now)
	for _, p := range points[mark.points:] { // stamped ahead of the clock
		lack = m.plus(lack, p.amount)
	}
	return lack, max(now, mark.at)
}

// mostLack is the most that a bucket is said to lack.
const mostLack = Never / 4

// plus returns what is lacking when an amount is taken.
func (m *bucketMeter) plus(lack, amount int64) int64 {
	if amount > (mostLack-lack)/m.window.Every {
		return mostLack
	}
	return lack + amount*m.window.Every
}

// start returns what the bucket lacks before the first point.
func (m *bucketMeter) start() lackMark {
	if since := m.missing(); m.dropped.at == 0 && since != 0 {
		return lackMark{at: since + m.window.Margin, lack: m.empty, isGuess: true}
	}
	return m.dropped
}

// next returns what the bucket lacks after one more point. One that was full
// begins to refill one margin later, when the upstream may see the call. A
// guess is over once it was full, and at most what an empty one lacks.
func (m *bucketMeter) next(mark lackMark) lackMark {
	p := m.series.points[mark.points]
	before, at := m.after(mark, p.at), max(mark.at, p.at)
	if before == 0 {
		at = p.at + m.window.Margin
	}
	next := lackMark{mark.points + 1, at, m.plus(before, p.amount), mark.isGuess && before > 0}
	if most := max(m.empty, m.plus(0, p.amount)); next.isGuess && next.lack >= most {
		next.lack, next.at = most, p.at+m.window.Margin
	}
	return next
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
	lack, _ := m.lack(now)
	return (lack + m.window.Every - 1) / m.window.Every
}

func (m *bucketMeter) load(now int64) int64 { return m.used(now) }
func (m *bucketMeter) until(int64) int64    { return 0 }

func (m *bucketMeter) retry(now, most int64) int64 {
	lack, from := m.lack(now)
	short := lack - max(0, most)*m.window.Every
	if short <= 0 {
		return now
	}
	return from + (short+m.window.Restore-1)/m.window.Restore
}

func (m *bucketMeter) returns(now int64) (at, amount int64) {
	used := m.used(now)
	if used == 0 {
		return 0, 0
	}
	return m.retry(now, used-1), 1
}

func (m *bucketMeter) steps(now int64, most int) (steps []loadStep) {
	used := m.used(now)
	size := max(1, used/int64(max(1, most)))
	for load := used - size; load >= 0 && len(steps) < most; load -= size {
		steps = append(steps, loadStep{m.retry(now, load), load})
	}
	return steps
}
