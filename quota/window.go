package quota

import (
	"fmt"
	"strings"
	"time"
)

// WindowKind is one of the ways in which a budget forgets what was spent.
type WindowKind uint8

// The kinds of window. The zero WindowKind is no window.
const (
	KindSliding WindowKind = iota + 1
	KindDaily
	KindCounter
)

// DefaultMargin is how far the upstream's clock and the ledger's may be apart
// around the boundary of a day before a call could count into the wrong one.
const DefaultMargin = 30 * time.Second

// The longest and shortest calendar windows, without their margins: clocks are
// set back or forward by an hour (in 2026 nowhere by more).
const (
	maxDay   = 25*time.Hour + 30*time.Minute
	maxMonth = 31*24*time.Hour + 90*time.Minute
	minDay   = 22*time.Hour + 30*time.Minute
	minMonth = 28*24*time.Hour - 90*time.Minute
)

// Window says over which time a budget counts. Make one with Sliding, Daily,
// Monthly or Counter; the zero Window is invalid. Windows are comparable.
type Window struct {
	kind   WindowKind
	length time.Duration
	zone   *time.Location
	margin time.Duration
	at     time.Duration // the time of day at which a calendar window begins
	month  bool
}

// Sliding is the trailing length, exact: an entry leaves the window when its
// age is length. Lengths are whole microseconds, from 1 ms on.
func Sliding(length time.Duration) Window {
	return Window{kind: KindSliding, length: length}
}

// Daily is the calendar day of zone, 23, 24 or 25 hours long: what was spent
// since local midnight, or since the time of day of At. Within DefaultMargin,
// or the margin of WithMargin, of the boundary a call must fit both days, so
// that clocks that differ by less cannot overspend either; a spent day opens
// again a margin after the boundary.
func Daily(zone *time.Location) Window {
	return Window{kind: KindDaily, zone: zone, margin: DefaultMargin}
}

// Monthly is the calendar month of zone, with margins as Daily has them.
func Monthly(zone *time.Location) Window {
	return Window{kind: KindDaily, zone: zone, margin: DefaultMargin, month: true}
}

// At returns a calendar window that begins at a time of day instead of
// midnight: 0 to 24 hours, in whole minutes.
func (w Window) At(timeOfDay time.Duration) Window {
	w.at = timeOfDay
	return w
}

// WithMargin returns a calendar window with another margin, 0 to 1 hour, in
// whole microseconds.
func (w Window) WithMargin(margin time.Duration) Window {
	w.margin = margin
	return w
}

// Counter estimates the trailing length from two counts: that of the present
// period, and that of the period before, weighted by how much of it the length
// still covers. Periods are aligned to the Unix epoch. It takes a few bytes
// however many calls there are (see Ledger for when there is no log at all).
//
// The estimate assumes that the calls of the period before were spread evenly.
// It is wrong by at most what that period held: at a fraction f of the present
// period a trailing window may really hold (1+f) times the limit, so always
// less than twice the limit, and calls may be refused that an exact window
// would admit. Standing.Over is the part by which it may be too low at present.
// The other windows are exact.
func Counter(length time.Duration) Window {
	return Window{kind: KindCounter, length: length}
}

// Kind returns what kind of window w is.
func (w Window) Kind() WindowKind { return w.kind }

// Length returns the length of a sliding or counter window, and 0 for a daily one.
func (w Window) Length() time.Duration { return w.length }

// Estimate reports whether what w counts is an estimate.
func (w Window) Estimate() bool { return w.kind == KindCounter }

// Horizon returns how long an entry can matter to w. A ledger keeps its
// entries at least so long.
func (w Window) Horizon() time.Duration {
	switch w.kind {
	case KindDaily:
		if w.month {
			return maxMonth + 2*w.margin
		}
		return maxDay + 2*w.margin
	case KindCounter:
		return 2 * w.length
	}
	return w.length
}

// since returns from when on entries count at an instant, and the zero time for
// an estimate.
func (w Window) since(at time.Time) time.Time {
	switch w.kind {
	case KindSliding:
		return at.Add(time.Microsecond - w.length)
	case KindDaily:
		return w.Day(at).Since
	}
	return time.Time{}
}

// shortest returns how long a calendar window lasts at least between its margins.
func (w Window) shortest() time.Duration {
	if w.month {
		return minMonth - 2*w.margin
	}
	return minDay - 2*w.margin
}

// String returns the window as costs.yaml writes it: 24h,
// {day: America/Los_Angeles}, {month: UTC} or {counter: 10m}.
func (w Window) String() string {
	switch w.kind {
	case KindSliding:
		return shortDuration(w.length)
	case KindDaily:
		unit, at := "day", ""
		if w.month {
			unit = "month"
		}
		if w.at > 0 {
			at = fmt.Sprintf(", at: %q", fmt.Sprintf("%02d:%02d", w.at/time.Hour, w.at%time.Hour/time.Minute))
		}
		return "{" + unit + ": " + w.zone.String() + at + "}"
	case KindCounter:
		return "{counter: " + shortDuration(w.length) + "}"
	}
	return "none"
}

func (w Window) check() error {
	switch w.kind {
	case KindSliding, KindCounter:
		if w.length < time.Millisecond || w.length%time.Microsecond != 0 || w.length > 400*24*time.Hour {
			return fmt.Errorf("a window of %s: give one from 1ms to 400 days, in whole microseconds", w.length)
		}
	case KindDaily:
		if w.zone == nil {
			return fmt.Errorf("a calendar window without a zone: give one, time.UTC for example")
		}
		if w.at < 0 || w.at >= 24*time.Hour || w.at%time.Minute != 0 {
			return fmt.Errorf("a calendar window that begins at %s: give a time of day in whole minutes", w.at)
		}
		if w.margin < 0 || w.margin > time.Hour || w.margin%time.Microsecond != 0 {
			return fmt.Errorf("a margin of %s: give 0 to 1h, in whole microseconds", w.margin)
		}
	default:
		return fmt.Errorf("no window: give one of quota.Sliding, quota.Daily, quota.Monthly, quota.Counter")
	}
	return nil
}

// Day is a calendar window around one instant: a day, or a month. Calls
// stamped at or after Since count; from Opens on the window is the next one's,
// which counts from Next, and so on to Reopens. Since and Next lie a margin
// before their boundaries and Opens and Reopens a margin after, so that a call
// near a boundary counts into both.
type Day struct {
	Start   time.Time // the window has been this one since then
	Since   time.Time // what counts now
	Opens   time.Time // the instant at which the next one takes over
	Next    time.Time // what counts from Opens on
	Reopens time.Time // the instant at which the one after that takes over
}

// Day returns the calendar window that holds at now: Start <= now < Opens.
func (w Window) Day(now time.Time) Day {
	offset := 0
	for now.Before(w.boundary(now, offset).Add(w.margin)) {
		offset--
	}
	for !now.Before(w.boundary(now, offset+1).Add(w.margin)) {
		offset++
	}
	begin, next, then := w.boundary(now, offset), w.boundary(now, offset+1), w.boundary(now, offset+2)
	return Day{
		Start:   begin.Add(w.margin).UTC(),
		Since:   begin.Add(-w.margin).UTC(),
		Opens:   next.Add(w.margin).UTC(),
		Next:    next.Add(-w.margin).UTC(),
		Reopens: then.Add(w.margin).UTC(),
	}
}

// between reports whether what is entered at an instant counts into two
// calendar windows.
func (w Window) between(at time.Time) bool {
	return w.kind == KindDaily && !at.Before(w.Day(at).Next)
}

// boundary returns the beginning of the calendar window offset windows after
// the one of now's local date: the first instant at which the zone's clocks
// show the time of day, or have passed it when they skip it.
func (w Window) boundary(now time.Time, offset int) time.Time {
	year, month, day := now.In(w.zone).Date()
	if w.month {
		month, day = month+time.Month(offset), 1
	} else {
		day += offset
	}
	wall := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Add(w.at)
	y, m, d := wall.Date()
	t := time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, w.zone)
	start, end := t.ZoneBounds()
	switch shown := t.Add(localOffset(t)).UTC(); {
	case shown.Before(wall): // skipped: t shows what comes before the gap
		return end
	case shown.After(wall):
		return start
	case start.IsZero():
		return t
	}
	// Shown twice, when clocks are set back: the first time counts.
	before := start.Add(-1)
	if back := localOffset(before) - localOffset(t); back > 0 && t.Add(-back).Before(start) {
		return t.Add(-back)
	}
	return t
}

// localOffset returns by how much a zone's clocks are ahead of UTC at t.
func localOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// shortDuration writes d as people do: 24h, 1m30s, not 24h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
