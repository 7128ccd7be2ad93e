package engine

import "time"

// The longest calendar windows, without their margins: clocks are set back by
// an hour, and by two in Antarctica/Troll.
const (
	longestDay   = 26 * 60 * 60 * 1_000_000
	longestMonth = 31*24*60*60*1_000_000 + 2*60*60*1_000_000
)

func (w *Window) calendarHorizon() int64 {
	if w.Month {
		return longestMonth + 2*w.Margin
	}
	return longestDay + 2*w.Margin
}

// day is the calendar day or month at a time. It is the current one from start
// until opens, one margin after the boundaries. Records from since on, a margin
// before the boundary, count for it; those from next on count for the next day
// too.
type day struct{ start, since, next, opens int64 }

// calendarMeter counts the days of a zone. Within a margin of a boundary a
// record counts for both days. What fits the day that ends fits the next one,
// unless floors end with the day.
type calendarMeter struct {
	window     Window
	floorUntil int64
	main       *cursor
	after      *cursor // of the records that count for the next day
	reserve    *reserve
	known      day // of the time that was asked for last
}

func newCalendarMeter(b *Budget, main *series, reserve *reserve) *calendarMeter {
	return &calendarMeter{window: b.Window, floorUntil: b.FloorUntil, main: main.newCursor(),
		after: main.newCursor(), reserve: reserve}
}

func (m *calendarMeter) day(now int64) day {
	if now < m.known.start || now >= m.known.opens {
		m.known = m.window.day(now)
	}
	return m.known
}

func (m *calendarMeter) used(now int64) int64 { return m.main.to(m.day(now).since) }

func (m *calendarMeter) load(now int64) int64 { return m.loadOf(m.day(now), now) }

// loadOf returns the load at a time of a day. Once the floors have ended, those
// of the next day apply from its margin on, and the fuller day counts.
func (m *calendarMeter) loadOf(d day, at int64) int64 {
	used := m.main.to(d.since)
	switch {
	case m.floorUntil == 0 || at < d.next-m.floorUntil:
		return used + m.reserve.at(d.since)
	case at < d.next:
		return used
	}
	return max(used, m.after.to(d.next)+m.reserve.at(d.next))
}

// until is when the floors of the next day begin, if those of today end.
func (m *calendarMeter) until(now int64) int64 {
	d := m.day(now)
	if m.floorUntil == 0 {
		return 0
	}
	if now < d.next {
		return d.next - 1
	}
	return d.opens - 1
}

// retry tries the times at which the load can fall: when the floors of a day
// end and when a day opens. A record counts in two days at most.
func (m *calendarMeter) retry(now, most int64) int64 {
	for at, tries := now, 0; tries < 3; tries++ {
		d := m.window.day(at)
		for _, then := range [...]int64{at, max(at, d.next-m.floorUntil)} {
			if m.loadOf(d, then) <= most {
				return then
			}
		}
		at = d.opens
	}
	return m.window.day(m.day(now).opens).opens
}

func (m *calendarMeter) returns(now int64) (at, amount int64) {
	d := m.day(now)
	used, next := m.main.to(d.since), m.after.to(d.next)
	switch {
	case used == 0:
		return 0, 0
	case used == next: // all of it counts for the next day too
		return m.window.day(d.opens).opens, used
	}
	return d.opens, used - next
}

func (m *calendarMeter) steps(now int64, most int) []loadStep {
	if m.floorUntil > 0 || most < 1 {
		return nil
	}
	d := m.day(now)
	return []loadStep{{d.opens, m.after.to(d.next) + m.reserve.copy().at(d.next)}}
}

// day returns the day of a time.
func (w *Window) day(at int64) day {
	now, margin := time.UnixMicro(at), time.Duration(w.Margin)*time.Microsecond
	offset := 0
	for now.Before(w.boundary(now, offset).Add(margin)) {
		offset--
	}
	for !now.Before(w.boundary(now, offset+1).Add(margin)) {
		offset++
	}
	begin, next := w.boundary(now, offset).UnixMicro(), w.boundary(now, offset+1).UnixMicro()
	return day{start: begin + w.Margin, since: begin - w.Margin, next: next - w.Margin, opens: next + w.Margin}
}

// boundary returns when the day or month begins that is offset away from now's.
// A time of day that the zone skips begins when the gap ends; of one that it
// shows twice, the first counts.
func (w *Window) boundary(now time.Time, offset int) time.Time {
	year, month, dayOfMonth := now.In(w.Zone).Date()
	if w.Month {
		month, dayOfMonth = month+time.Month(offset), 1
	} else {
		dayOfMonth += offset
	}
	wall := time.Date(year, month, dayOfMonth, 0, 0, 0, 0, time.UTC).Add(time.Duration(w.Start) * time.Microsecond)
	y, m, d := wall.Date()
	t := time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, w.Zone)
	start, end := t.ZoneBounds()
	switch shown := t.Add(zoneOffset(t)).UTC(); {
	case shown.Before(wall):
		return end
	case shown.After(wall):
		return start
	case start.IsZero():
		return t
	}
	before := start.Add(-1)
	if back := zoneOffset(before) - zoneOffset(t); back > 0 && t.Add(-back).Before(start) {
		return t.Add(-back)
	}
	return t
}

// zoneOffset returns the offset from UTC of t's zone at t.
func zoneOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
