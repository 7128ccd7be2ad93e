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

// maxDay is the longest calendar day that Daily meets (25 hours when clocks
// are set back) with room for its margins.
const maxDay = 26 * time.Hour

// Window says over which time a budget counts. Make one with Sliding, Daily
// or Counter; the zero Window is invalid. Windows are comparable.
type Window struct {
	kind   WindowKind
	length time.Duration
	zone   *time.Location
	margin time.Duration
}

// Sliding is the trailing length, exact: an entry leaves the window when its
// age is length. Lengths are whole microseconds, from 1 ms on.
func Sliding(length time.Duration) Window {
	return Window{kind: KindSliding, length: length}
}

// Daily is the calendar day of zone, 23, 24 or 25 hours long: what was spent
// since local midnight. Within DefaultMargin of a midnight a call must fit
// both days, so that clocks that differ by less cannot overspend either; a
// spent day opens again DefaultMargin after midnight.
func Daily(zone *time.Location) Window {
	return Window{kind: KindDaily, zone: zone, margin: DefaultMargin}
}

// Counter estimates the trailing length from two counters, the present
// period's and the one before weighted by how much of it still shows. It takes
// a few bytes however many calls there are, and may be wrong by the unevenness
// of the calls; the other windows are exact.
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
		return maxDay
	case KindCounter:
		return 2 * w.length
	}
	return w.length
}

// String returns the window as costs.yaml writes it: 24h,
// {day: America/Los_Angeles} or {counter: 10m}.
func (w Window) String() string {
	switch w.kind {
	case KindSliding:
		return shortDuration(w.length)
	case KindDaily:
		return "{day: " + w.zone.String() + "}"
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
			return fmt.Errorf("a daily window without a zone: give one, time.UTC for example")
		}
	default:
		return fmt.Errorf("no window: give one of quota.Sliding, quota.Daily, quota.Counter")
	}
	return nil
}

// Day is a daily window around one instant. Calls stamped at or after Since
// count; from Opens on the window is the next day's, which counts from Next,
// and so on to Then. Since and Next lie a margin before their midnights and
// Opens and Reopens a margin after, so that a call near midnight counts into both days.
type Day struct {
	Start   time.Time // the window has been this day's since then
	Since   time.Time // what counts now
	Opens   time.Time // the instant at which the next day takes over
	Next    time.Time // what counts from Opens on
	Reopens time.Time // the instant at which the day after that takes over
}

// Day returns the daily window that holds at now: Start <= now < Opens.
func (w Window) Day(now time.Time) Day {
	local := now.In(w.zone)
	year, month, day := local.Date()
	midnight := func(offset int) time.Time { return time.Date(year, month, day+offset, 0, 0, 0, 0, w.zone) }
	offset := 0
	if now.Before(midnight(0).Add(w.margin)) {
		offset = -1
	}
	begin, next, then := midnight(offset), midnight(offset+1), midnight(offset+2)
	return Day{
		Start:   begin.Add(w.margin).UTC(),
		Since:   begin.Add(-w.margin).UTC(),
		Opens:   next.Add(w.margin).UTC(),
		Next:    next.Add(-w.margin).UTC(),
		Reopens: then.Add(w.margin).UTC(),
	}
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
