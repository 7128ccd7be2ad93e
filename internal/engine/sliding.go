package engine

// slidingMeter counts the trailing length of time: a record counts until its
// age is the length and the margin.
type slidingMeter struct {
	length  int64
	main    *cursor
	reserve *reserve
}

func newSlidingMeter(b *Budget, main *series, reserve *reserve) *slidingMeter {
	return &slidingMeter{b.Window.Length + b.Window.Margin, main.newCursor(), reserve}
}

func (m *slidingMeter) since(now int64) int64 { return now - m.length + 1 }

func (m *slidingMeter) used(now int64) int64 { return m.main.to(m.since(now)) }

func (m *slidingMeter) load(now int64) int64 { return m.used(now) + m.reserve.at(m.since(now)) }

func (m *slidingMeter) until(int64) int64 { return 0 }

// retry looks at each time at which a record leaves.
func (m *slidingMeter) retry(now, most int64) int64 {
	if m.load(now) <= most {
		return now
	}
	main, kept := *m.main, m.reserve.copy()
	points := main.series.points
	for i := main.from; i < len(points); i++ {
		isLast := i == len(points)-1 || points[i+1].at != points[i].at
		if !isLast {
			continue
		}
		since := points[i].at + 1
		if main.to(since)+kept.at(since) <= most {
			return m.leaves(points[i].at, now)
		}
	}
	return now + m.length
}

// leaves returns when a record leaves the window. One that is stamped far ahead
// of the clock will be corrected.
func (m *slidingMeter) leaves(at, now int64) int64 {
	if at > now+maxLead {
		at = now
	}
	return at + m.length
}

func (m *slidingMeter) returns(now int64) (at, amount int64) {
	m.used(now)
	points := m.main.series.points
	for _, p := range points[m.main.from:] {
		switch {
		case amount > 0 && p.at != at:
			return m.leaves(at, now), amount
		case p.amount > 0:
			at, amount = p.at, amount+p.amount
		}
	}
	if amount == 0 {
		return 0, 0
	}
	return m.leaves(at, now), amount
}

func (m *slidingMeter) steps(now int64, most int) (steps []loadStep) {
	m.load(now)
	main, kept := *m.main, m.reserve.copy()
	points := main.series.points
	for i := main.from; i < len(points) && len(steps) < most; i++ {
		isLast := i == len(points)-1 || points[i+1].at != points[i].at
		if isLast {
			since := points[i].at + 1
			steps = append(steps, loadStep{points[i].at + m.length, main.to(since) + kept.at(since)})
		}
	}
	return steps
}
