package quota

import (
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// WindowKind is a kind of Window.
type WindowKind uint8

// The kinds of window. The zero WindowKind is invalid.
const (
	KindSliding WindowKind = iota + 1
	KindDaily              // calendar windows: Daily and Monthly
)

// DefaultMargin is the margin of a calendar window: the largest difference
// between the clocks of the upstream and the ledger that is harmless at the
// boundary of a day or month.
const DefaultMargin = 30 * time.Second

// The longest and shortest calendar windows, without their margins: clocks are
// set back or forward by an hour. Those of Antarctica/Troll move by two: its
// longest day is within the slack of Retention.
const (
	maxDay   = 25*time.Hour + 30*time.Minute
	maxMonth = 31*24*time.Hour + 90*time.Minute
	minDay   = 22*time.Hour + 30*time.Minute
	minMonth = 28*24*time.Hour - 90*time.Minute
)

// Window is the time over which a budget counts. Make one with Sliding, Daily
// or Monthly; the zero Window is invalid. Windows can be compared with ==.
type Window struct {
	kind   WindowKind
	length time.Duration
	zone   *time.Location
	margin time.Duration
	at     time.Duration // the time of day at which a calendar window begins
	month  bool
}

// Sliding returns the window of the trailing length. It is exact: an
// entry counts until its age is length. The length is 1 ms to 400 days,
// in whole microseconds.
//
// Calls arrive at the upstream later than the ledger records them, some later
// than others, so an upstream that counts arrivals can see more in a window
// than was admitted in one. With a margin, of WithMargin, units return that
// much later; it must be at least the difference between the fastest and the
// slowest call. The default is 0.
func Sliding(length time.Duration) Window {
	return Window{kind: KindSliding, length: length}
}

// Daily returns the window of the calendar day in zone, which may be 23, 24 or
// 25 hours long. It begins at midnight, or at the time of day set with At.
//
// Within a margin before and after the boundary, a call counts for both days
// and must fit both. Neither day can then be overspent while the clocks of
// upstream and ledger differ by less than the margin. A spent day admits
// calls again one margin after the boundary. The margin is DefaultMargin, or
// that of WithMargin.
func Daily(zone *time.Location) Window {
	return Window{kind: KindDaily, zone: zone, margin: DefaultMargin}
}

// Monthly returns the window of the calendar month in zone, with the margins
// of Daily.
func Monthly(zone *time.Location) Window {
	return Window{kind: KindDaily, zone: zone, margin: DefaultMargin, month: true}
}

// At returns the calendar window w, beginning at a time of day instead of
// midnight: at least 0 and less than 24 hours, in whole minutes.
func (w Window) At(timeOfDay time.Duration) Window {
	w.at = timeOfDay
	return w
}

// WithMargin returns the calendar or sliding window w with another margin: 0 to
// 1 hour, in whole microseconds.
func (w Window) WithMargin(margin time.Duration) Window {
	w.margin = margin
	return w
}

// Kind returns the kind of window.
func (w Window) Kind() WindowKind { return w.kind }

// Length returns how long an entry counts in a Sliding window, which is its
// length and its margin. It is 0 for a calendar window.
func (w Window) Length() time.Duration {
	if w.kind == KindSliding {
		return w.length + w.margin
	}
	return 0
}

// Horizon returns how old an entry can be and still count. A ledger keeps its
// entries for at least that long.
func (w Window) Horizon() time.Duration {
	switch {
	case w.kind == KindDaily && w.month:
		return maxMonth + 2*w.margin
	case w.kind == KindDaily:
		return maxDay + 2*w.margin
	}
	return w.Length()
}

// Since returns the time from which entries count at a given time.
func (w Window) Since(at time.Time) time.Time {
	if w.kind == KindDaily {
		return w.Day(at).Since
	}
	return at.Add(time.Microsecond - w.Length())
}

// shortest returns the least time between the margins of a calendar window.
func (w Window) shortest() time.Duration {
	if w.month {
		return minMonth - 2*w.margin
	}
	return minDay - 2*w.margin
}

// String returns the window as it is written in costs.yaml: 24h,
// {sliding: 2s, margin: 20ms}, {day: America/Los_Angeles} or {month: UTC}.
func (w Window) String() string {
	switch w.kind {
	case KindSliding:
		if w.margin > 0 {
			return "{sliding: " + textfmt.Exactly(w.length) + ", margin: " + textfmt.Exactly(w.margin) + "}"
		}
		return textfmt.Exactly(w.length)
	case KindDaily:
		unit, at := "day", ""
		if w.month {
			unit = "month"
		}
		if w.at > 0 {
			at = fmt.Sprintf(", at: %q", fmt.Sprintf("%02d:%02d", w.at/time.Hour, w.at%time.Hour/time.Minute))
		}
		return "{" + unit + ": " + w.zone.String() + at + "}"
	}
	return "none"
}

func (w Window) check() error {
	switch w.kind {
	case KindSliding:
		if w.length < time.Millisecond || w.length%time.Microsecond != 0 || w.length > MaxHistory {
			return fmt.Errorf("a window of %s; set it to 1ms to 400 days, in whole microseconds", w.length)
		}
	case KindDaily:
		if w.zone == nil {
			return fmt.Errorf("a calendar window without a zone; pass one, such as time.UTC")
		}
		if w.at < 0 || w.at >= 24*time.Hour || w.at%time.Minute != 0 {
			return fmt.Errorf("a calendar window that begins at %s; pass a time of day in whole minutes", w.at)
		}
	default:
		return fmt.Errorf("no window; set one with quota.Sliding, Daily or Monthly")
	}
	if w.margin < 0 || w.margin > time.Hour || w.margin%time.Microsecond != 0 {
		return fmt.Errorf("a margin of %s; set it to 0 to 1h, in whole microseconds", w.margin)
	}
	return nil
}

// Day describes the calendar day or month that a window covers at a given time,
// and the next one. Start, Opens and Reopens are one margin after a boundary,
// Since and Next one margin before it, so a call between them counts for both
// sides of the boundary.
type Day struct {
	Start   time.Time // when this day began to be the current one
	Since   time.Time // entries with this timestamp or a later one count for this day
	Opens   time.Time // when the next day becomes the current one
	Next    time.Time // entries with this timestamp or a later one count for the next day
	Reopens time.Time // when the day after the next becomes the current one
}

// Day returns the day or month that a calendar window covers at now, so that
// Start <= now < Opens. It panics for windows of other kinds.
func (w Window) Day(now time.Time) Day {
	offset := 0
	for now.Before(w.boundary(now, offset).Add(w.margin)) {
		offset--
	}
	for !now.Before(w.boundary(now, offset+1).Add(w.margin)) {
		offset++
	}
	begin := w.boundary(now, offset)
	next := w.boundary(now, offset+1)
	then := w.boundary(now, offset+2)
	return Day{
		Start:   begin.Add(w.margin).UTC(),
		Since:   begin.Add(-w.margin).UTC(),
		Opens:   next.Add(w.margin).UTC(),
		Next:    next.Add(-w.margin).UTC(),
		Reopens: then.Add(w.margin).UTC(),
	}
}

// Days returns the window of one calendar day, without a margin, whose days
// group the spending of w: in the zone and from the time of day of a calendar
// window, and in UTC for other windows.
func (w Window) Days() Window {
	if w.kind != KindDaily {
		return Daily(time.UTC).WithMargin(0)
	}
	return Daily(w.zone).At(w.at).WithMargin(0)
}

// Zone returns the time zone of a calendar window, and UTC for other windows.
func (w Window) Zone() *time.Location {
	if w.kind != KindDaily {
		return time.UTC
	}
	return w.zone
}

// between reports whether an entry made at a given time counts for two days.
func (w Window) between(at time.Time) bool {
	return w.kind == KindDaily && !at.Before(w.Day(at).Next)
}

// boundary returns when a calendar window begins: the one offset windows after
// that of now's local date. It is the first time at which the zone's clocks
// show the time of day or, if they skip it, a later one.
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

// localOffset returns the offset from UTC of t's zone at t.
func localOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
