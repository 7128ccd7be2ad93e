package quota

import (
	"cmp"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Window is the time over which a budget counts. Make one with a function of
// this package, such as Sliding or Daily; the zero Window is invalid. Windows
// can be compared with ==.
type Window struct{ is engine.Window }

// Sliding returns the window of the trailing length. It is exact: an
// entry counts until its age is length. The length is 1 ms to 400 days,
// in whole microseconds.
//
// Calls arrive at the upstream later than the ledger records them, some later
// than others, so an upstream that counts arrivals can see more in a window
// than was admitted in one. With a margin, of WithMargin, units return that
// much later; it must be at least the difference between the fastest and the
// slowest call. The default is 0: upstreams that count arrivals need 5 % of a
// window of less than a minute, at least 20 ms and at most a second.
func Sliding(length time.Duration) Window {
	return Window{engine.Window{Kind: engine.Sliding, Length: length.Microseconds(), Margin: oddMicros(length)}}
}

// oddMicros is a margin that check refuses, of a length that is not in whole
// microseconds.
func oddMicros(length time.Duration) int64 {
	if length%time.Microsecond != 0 {
		return -1
	}
	return 0
}

// Daily returns the window of the calendar day in zone, which may be 23, 24 or
// 25 hours long. It begins at midnight, or at the time of day set with At.
//
// Within a margin before and after the boundary, a call counts for both days
// and must fit both. Neither day can then be overspent while the clocks of
// upstream and ledger differ by less than the margin. A spent day admits
// calls again one margin after the boundary. The margin is DefaultMargin, or
// that of WithMargin.
func Daily(zone *time.Location) Window { return calendar(zone, engine.Days, 0) }

// Weekly returns the window of the calendar week in zone that begins on a day,
// with the margins of Daily.
func Weekly(zone *time.Location, begins time.Weekday) Window {
	return calendar(zone, engine.Weeks, int(begins))
}

// Monthly returns the window of the calendar month in zone, with the margins
// of Daily.
func Monthly(zone *time.Location) Window { return calendar(zone, engine.Months, 1) }

// From returns the monthly window w, beginning on another day of the month than
// the first: 1 to 28.
func (w Window) From(day int) Window {
	w.is.First = day
	return w
}

func calendar(zone *time.Location, unit engine.CalendarUnit, first int) Window {
	return Window{engine.Window{Kind: engine.Calendar, Zone: zone, Unit: unit, First: first,
		Margin: DefaultMargin.Microseconds()}}
}

// Hourly returns the window of the hour on the clock in zone: Every for a zone.
func Hourly(zone *time.Location) Window { return every(zone, time.Hour) }

// Every returns the window of a length on the clock, counted from midnight UTC:
// a second to 12 hours, a whole part of a day. Its margin is a
// twentieth of the length, or that of WithMargin, which is at most a quarter.
func Every(length time.Duration) Window { return every(time.UTC, length) }

func every(zone *time.Location, length time.Duration) Window {
	w := calendar(zone, engine.Steps, 0)
	w.is.Length = length.Microseconds()
	w.is.Margin = min(DefaultMargin, length/20).Microseconds()
	return w
}

// Bucket returns the window of a bucket that is as large as the budget's limit,
// in which units return one after the other, so that restore of them return in
// each length of time: 1 to MaxUnits in a millisecond to 400 days.
func Bucket(restore Units, in time.Duration) Window {
	return Window{engine.Window{Kind: engine.Bucket, Restore: int64(restore), Every: in.Microseconds()}}
}

// InFlight returns the window of calls that have been granted and have not
// ended: they are in flight until their grant is settled, refunded or ended,
// and for no longer than lease, a second to a day.
func InFlight(lease time.Duration) Window {
	return Window{engine.Window{Kind: engine.InFlight, Length: lease.Microseconds()}}
}

// shortMargin returns the margin that a window of a length needs, whose
// upstream counts calls when they arrive: 5 % of a window of less than a
// minute, at least 20 ms and at most a second, and 0 for longer ones.
func shortMargin(length time.Duration) time.Duration {
	if length >= time.Minute {
		return 0
	}
	return min(max(length/20, 20*time.Millisecond), time.Second)
}

// ArrivalMargin returns the margin that costs.yaml gives a sliding window or a
// bucket unless it says another: shortMargin of a window's length, and for a
// bucket 5 % of the time in which a unit returns, 20 to 100 ms.
func (w Window) ArrivalMargin() time.Duration {
	switch w.Kind() {
	case engine.Sliding:
		return shortMargin(micros(w.is.Length))
	case engine.Bucket:
		return min(max(w.UnitTime()/20, 20*time.Millisecond), 100*time.Millisecond)
	}
	return 0
}

// UnitTime returns the time in which a bucket gets back one unit.
func (w Window) UnitTime() time.Duration {
	return micros(w.is.Every) / time.Duration(max(1, w.is.Restore))
}

// MaxMargin returns the longest margin that the window can have.
func (w Window) MaxMargin() time.Duration {
	if w.is.Kind == engine.Calendar && w.is.Unit == engine.Steps {
		return micros(w.is.Length) / 4
	}
	return time.Hour
}

// At returns the window w of days, weeks or months, beginning at a time of day
// instead of midnight: at least 0 and less than 24 hours, in whole minutes.
func (w Window) At(timeOfDay time.Duration) Window {
	w.is.Start = timeOfDay.Microseconds()
	return w
}

// WithMargin returns the window w with another margin, 0 to MaxMargin in whole
// microseconds. A bucket that was full begins to refill that much later.
// Windows in flight have none.
func (w Window) WithMargin(margin time.Duration) Window {
	w.is.Margin = margin.Microseconds()
	if margin%time.Microsecond != 0 {
		w.is.Margin = -1
	}
	return w
}

// Kind returns the kind of window, for the other packages of this module.
func (w Window) Kind() engine.WindowKind { return w.is.Kind }

// Margin returns the margin of the window.
func (w Window) Margin() time.Duration { return micros(w.is.Margin) }

// Length returns how long an entry counts in a Sliding window, which is its
// length and its margin. It is 0 for other windows.
func (w Window) Length() time.Duration {
	if w.is.Kind == engine.Sliding {
		return micros(w.is.Length + w.is.Margin)
	}
	return 0
}

// Lease returns how long a call in flight counts at most, and 0 for windows of
// other kinds.
func (w Window) Lease() time.Duration {
	if w.is.Kind == engine.InFlight {
		return micros(w.is.Length)
	}
	return 0
}

// CountsSince reports whether the window holds all that was recorded from some
// time on, as sliding and calendar windows do. Only those can have floors.
func (w Window) CountsSince() bool { return w.Kind() == engine.Sliding || w.Kind() == engine.Calendar }

// Span returns how long the window is called: the length of a sliding window
// without its margin, 24 hours for a day, 7 days for a week, 30 days for a
// month. It is 0 for a bucket and for calls in flight.
func (w Window) Span() time.Duration {
	const day = 24 * time.Hour
	switch {
	case w.Kind() == engine.Sliding, w.Kind() == engine.Calendar && w.is.Unit == engine.Steps:
		return micros(w.is.Length)
	case w.Kind() == engine.Calendar:
		return [...]time.Duration{engine.Days: day, engine.Weeks: 7 * day, engine.Months: 30 * day}[w.is.Unit]
	}
	return 0
}

// Refills reports whether an empty bucket of a size refills within 100 days,
// which is the longest that a ledger can tell.
func (w Window) Refills(size Units) bool {
	parts := float64(size) * float64(w.is.Every)
	return parts < 1<<60 && parts/float64(w.is.Restore) <= float64(MaxHistory.Microseconds()/4)
}

// RefillTime returns the time in which an empty bucket of a size is full again.
func (w Window) RefillTime(size Units) time.Duration {
	parts := float64(size) * float64(w.is.Every)
	return micros(int64(min(parts/float64(max(1, w.is.Restore)), float64(MaxHistory.Microseconds()))))
}

// Horizon returns how old an entry can be and still count in the window of a
// budget with a limit. A ledger keeps its entries for at least that long. Only
// a bucket's depends on the limit: it is four times that in which it refills.
func (w Window) Horizon(limit Units) time.Duration { return micros(w.is.Horizon(int64(limit))) }

// Horizon returns how old an entry can be and still count in the budget.
func (b *Budget) Horizon() time.Duration { return b.Window.Horizon(highest(b.Keys, b.Limit)) }

// Since returns the time from which entries count at a given time, in a budget
// with a limit.
func (w Window) Since(at time.Time, limit Units) time.Time {
	if w.is.Kind == engine.Calendar {
		return w.Day(at).Since
	}
	return at.Add(time.Microsecond - w.Horizon(limit))
}

// IsLike reports whether two windows are of one kind and length, wherever they
// begin, and whatever their margins and leases are.
func (w Window) IsLike(other Window) bool {
	plain := [...]engine.Window{w.is, other.is}
	for i := range plain {
		p := &plain[i]
		p.Zone, p.Start = nil, 0
		p.First, p.Margin = 0, 0
		if p.Kind == engine.InFlight {
			p.Length = 0
		}
	}
	return plain[0] == plain[1]
}

// Shortest returns the least time between the margins of a calendar window:
// clocks are set forward by an hour, and by two in Antarctica/Troll.
func (w Window) Shortest() time.Duration {
	const day = 24 * time.Hour
	length := [...]time.Duration{engine.Days: day, engine.Weeks: 7 * day, engine.Months: 28 * day}
	if w.is.Unit == engine.Steps {
		return micros(w.is.Length - 2*w.is.Margin)
	}
	return length[w.is.Unit] - 90*time.Minute - 2*w.Margin()
}

// Day describes the calendar day, week, month or step that a window covers at a
// given time, and the next one. Start, Opens and Reopens are one margin after a
// boundary, Since and Next one margin before it, so a call between them counts
// for both sides of the boundary.
type Day struct {
	Start   time.Time // when this day began to be the current one
	Since   time.Time // entries with this timestamp or a later one count for this day
	Opens   time.Time // when the next day becomes the current one
	Next    time.Time // entries with this timestamp or a later one count for the next day
	Reopens time.Time // when the day after the next becomes the current one
}

// Day returns the day that a calendar window covers at now, so that Start <=
// now < Opens. It panics for windows of other kinds.
func (w Window) Day(now time.Time) Day {
	at := now.UnixMicro()
	d := w.is.Day(at)
	return Day{Start: ledgerTime(d.Start), Since: ledgerTime(d.Since), Opens: ledgerTime(d.Opens),
		Next: ledgerTime(d.Next), Reopens: ledgerTime(d.Reopens)}
}

// Days returns the window of one calendar day, without a margin, whose days
// group the spending of w: in the zone and from the time of day of a calendar
// window, and in UTC for other windows.
func (w Window) Days() Window { return Daily(w.Zone()).At(micros(w.is.Start)).WithMargin(0) }

// Zone returns the time zone of a calendar window, and UTC for other windows.
func (w Window) Zone() *time.Location { return cmp.Or(w.is.Zone, time.UTC) }

// between reports whether an entry made at a given time counts for two days.
func (w Window) between(at time.Time) bool {
	return w.is.Kind == engine.Calendar && !at.Before(w.Day(at).Next)
}
