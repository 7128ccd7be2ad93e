package engine

// calendarMeter counts the days of a zone. Within a margin of a boundary a
// record counts for both days. What fits the day that ends fits the next one,
// unless floors end with the day.
type calendarMeter struct {
	window     Window
	floorUntil int64
	main       *cursor
	after      *cursor // of the records that count for the next day
	reserve    *reserve
	known      Day // of the time that was asked for last
}

func newCalendarMeter(b *Budget, main *series, reserve *reserve) *calendarMeter {
	return &calendarMeter{window: b.Window, floorUntil: b.FloorUntil, main: main.newCursor(),
		after: main.newCursor(), reserve: reserve}
}

func (m *calendarMeter) day(now int64) Day {
	if now < m.known.Start || now >= m.known.Opens {
		m.known = m.window.Day(now)
	}
	return m.known
}

func (m *calendarMeter) used(now int64) int64 { return m.main.to(m.day(now).Since) }

func (m *calendarMeter) load(now int64) int64 { return m.loadOf(m.day(now), now) }

// loadOf returns the load at a time of a day. Once the floors have ended, those
// of the next day apply from its margin on, and the fuller day counts.
func (m *calendarMeter) loadOf(d Day, at int64) int64 {
	used := m.main.to(d.Since)
	switch {
	case m.floorUntil == 0 || at < d.Next-m.floorUntil:
		return used + m.reserve.at(d.Since)
	case at < d.Next:
		return used
	}
	return max(used, m.after.to(d.Next)+m.reserve.at(d.Next))
}

// until is when the floors of the next day begin, if those of today end.
func (m *calendarMeter) until(now int64) int64 {
	d := m.day(now)
	if m.floorUntil == 0 {
		return 0
	}
	if now < d.Next {
		return d.Next - 1
	}
	return d.Opens - 1
}

// retry tries the times at which the load can fall: when the floors of a day
// end and when a day opens. A record counts in two days at most.
func (m *calendarMeter) retry(now, most int64) int64 {
	for at, tries := now, 0; tries < 3; tries++ {
		d := m.window.Day(at)
		for _, then := range [...]int64{at, max(at, d.Next-m.floorUntil)} {
			if m.loadOf(d, then) <= most {
				return then
			}
		}
		at = d.Opens
	}
	return m.day(now).Reopens
}

func (m *calendarMeter) returns(now int64) (at, amount int64) {
	d := m.day(now)
	used, next := m.main.to(d.Since), m.after.to(d.Next)
	switch {
	case used == 0:
		return 0, 0
	case used == next: // all of it counts for the next day too
		return d.Reopens, used
	}
	return d.Opens, used - next
}

func (m *calendarMeter) steps(now int64, most int) []loadStep {
	if m.floorUntil > 0 || most < 1 {
		return nil
	}
	d := m.day(now)
	return []loadStep{{d.Opens, m.after.to(d.Next) + m.reserve.copy().at(d.Next)}}
}
