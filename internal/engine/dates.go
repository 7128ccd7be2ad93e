package engine

import "time"

// CalendarUnit says what a calendar window counts by.
type CalendarUnit uint8

// The units of calendar windows.
const (
	Days CalendarUnit = iota
	Weeks
	Months
	Steps // of Window.Length, from midnight on
)

// The longest calendar windows, without their margins: clocks are set back by
// an hour. Those of Antarctica/Troll move by two: its longest day is within
// what the log is kept for beyond a horizon.
const (
	minutes      = 60 * 1_000_000
	longestDay   = (25*60 + 30) * minutes
	longestWeek  = (7*24*60 + 90) * minutes
	longestMonth = (31*24*60 + 90) * minutes
)

func (w *Window) calendarHorizon() int64 {
	longest := [...]int64{Days: longestDay, Weeks: longestWeek, Months: longestMonth,
		Steps: w.Length + min(w.Length, 60*minutes)}
	return longest[w.Unit] + 2*w.Margin
}

// Day is the calendar day, week, month or step at a time, in microseconds. It
// is the current one from Start until Opens, one margin after its boundaries.
// Records from Since on, a margin before the boundary, count for it; those from
// Next on count for the next one too, which is current until Reopens.
type Day struct{ Start, Since, Next, Opens, Reopens int64 }

// Day returns the day of a time.
func (w *Window) Day(at int64) Day {
	now, margin := time.UnixMicro(at), time.Duration(w.Margin)*time.Microsecond
	offset := 0
	for now.Before(w.boundary(now, offset).Add(margin)) {
		offset--
	}
	for !now.Before(w.boundary(now, offset+1).Add(margin)) {
		offset++
	}
	begin, next := w.boundary(now, offset).UnixMicro(), w.boundary(now, offset+1).UnixMicro()
	return Day{Start: begin + w.Margin, Since: begin - w.Margin, Next: next - w.Margin, Opens: next + w.Margin,
		Reopens: w.boundary(now, offset+2).UnixMicro() + w.Margin}
}

// boundary returns when the day, week, month or step begins that is offset away
// from now's. A time of day that the zone skips begins when the gap ends; of
// one that it shows twice, the first counts.
func (w *Window) boundary(now time.Time, offset int) time.Time {
	now = now.In(w.Zone)
	year, month, dayOfMonth := now.Date()
	switch w.Unit {
	case Days:
		dayOfMonth += offset
	case Weeks:
		dayOfMonth += 7*offset - (int(now.Weekday())-w.First+7)%7
	case Months:
		month, dayOfMonth = month+time.Month(offset), max(1, w.First)
	case Steps:
		zone, step := zoneOffset(now), time.Duration(w.Length)*time.Microsecond
		shown := now.UTC().Add(zone).Truncate(step)
		return shown.Add(time.Duration(offset)*step - zone)
	}
	wall := time.Date(year, month, dayOfMonth, 0, 0, 0, 0, time.UTC).Add(time.Duration(w.Start) * time.Microsecond)
	for t := wall.AddDate(0, 0, -2).In(w.Zone); ; { // in each period of the zone that has one offset from UTC
		start, end := t.ZoneBounds()
		at := wall.Add(-zoneOffset(t))
		switch {
		case at.Before(start):
			return start
		case end.IsZero() || at.Before(end):
			return at
		}
		t = end
	}
}

// zoneOffset returns the offset from UTC of t's zone at t.
func zoneOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
