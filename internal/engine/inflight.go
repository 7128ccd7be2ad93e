package engine

// inFlightMeter counts the calls whose leases have not ended. The points of its
// series are at the ends of the leases, and a grant that is settled counts 0.
type inFlightMeter struct {
	main *cursor
}

func newInFlightMeter(_ *Budget, main *series) *inFlightMeter {
	return &inFlightMeter{main.newCursor()}
}

func (m *inFlightMeter) used(now int64) int64 { return m.main.to(now + 1) }

func (m *inFlightMeter) load(now int64) int64 { return m.used(now) }

func (m *inFlightMeter) until(int64) int64 { return 0 }

// retry is when enough leases end by themselves. Most end sooner, by a settle.
func (m *inFlightMeter) retry(now, most int64) int64 {
	if m.used(now) <= most {
		return now
	}
	main := *m.main
	for _, p := range main.series.points[main.from:] {
		if main.to(p.at+1) <= most {
			return p.at
		}
	}
	return Never
}

func (m *inFlightMeter) returns(now int64) (at, amount int64) {
	m.used(now)
	for _, p := range m.main.series.points[m.main.from:] {
		if p.amount > 0 {
			return p.at, p.amount
		}
	}
	return 0, 0
}

func (m *inFlightMeter) steps(now int64, most int) (steps []loadStep) {
	m.used(now)
	main := *m.main
	for _, p := range main.series.points[main.from:] {
		if len(steps) == most {
			break
		}
		steps = append(steps, loadStep{p.at, main.to(p.at + 1)})
	}
	return steps
}
