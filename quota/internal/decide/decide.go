// Package decide answers the question that a budget asks of a log: does this
// amount fit, and if not, when would it. It is shared by the ledgers that are
// written in Go; the Redis ledger's script says the same in Lua, and the suite
// in ledgertest holds them together.
//
// Instants are microseconds since the Unix epoch.
package decide

import (
	"math"
	"math/bits"
	"time"

	"github.com/ration-dev/ration/quota"
)

// List is the running total of one coverage's records, oldest first. Records
// may count 0, so totals do not fall but need not rise.
type List interface {
	// Newest returns the stamp of the newest record and the total after it, zeros for an empty list.
	Newest() (stamp, total int64)
	// Before returns the total of the records stamped before an instant.
	Before(at int64) int64
	// Reach returns the stamp of the oldest record at which the total is at
	// least so much. There is one: callers ask for no more than the newest total.
	Reach(total int64) int64
}

// Question is one charge at one instant.
type Question struct {
	Now    int64
	Window *quota.Window
	Limit  int64
	Day    *Day // of a daily window at Now; nil for other windows

	Floors     []Floor // of a sliding or daily window
	FloorUntil int64   // so long before a daily window's Next the floors of the day end; 0: never
}

// Fit is how an amount fits: what is used, and what is kept for others.
// RetryAt is 0 when it fits now, else the first instant at which it would if nobody else spent.
type Fit struct{ Used, Kept, RetryAt int64 }

// Day is a quota.Day in microseconds.
type Day struct{ Start, Since, Opens, Next, Reopens int64 }

// DayOf returns the day of a daily window at now.
func DayOf(w quota.Window, now int64) Day {
	d := w.Day(time.UnixMicro(now))
	return Day{d.Start.UnixMicro(), d.Since.UnixMicro(), d.Opens.UnixMicro(), d.Next.UnixMicro(), d.Reopens.UnixMicro()}
}

// Holds reports whether the day is still the window's at now.
func (d Day) Holds(now int64) bool { return d.Start <= now && now < d.Opens }

// Used returns what the window holds, and since when it counts, 0 for an estimate.
func (q *Question) Used(list List) (used, since int64) {
	if q.Window.Estimate() {
		return q.estimate(list, 0).Used, 0
	}
	since = q.since()
	return usedSince(list, since), since
}

// since returns from when on entries count in an exact window.
func (q *Question) since() int64 {
	if q.Day != nil {
		return q.Day.Since
	}
	return q.Now - q.Window.Length().Microseconds() + 1
}

func usedSince(list List, since int64) int64 {
	_, total := list.Newest()
	return total - list.Before(since)
}

// Fits reports how amount fits. Amount and floors together are at most Limit,
// but for floors that end: then amount alone is.
func (q *Question) Fits(list List, amount int64) Fit {
	switch {
	case q.Window.Estimate():
		return q.estimate(list, amount)
	case len(q.Floors) > 0 && q.Day == nil:
		return q.besideFloors(list, amount)
	case len(q.Floors) > 0:
		return q.besideDaysFloors(list, amount)
	}
	used := usedSince(list, q.since())
	short := used + amount - q.Limit
	if short <= 0 {
		return Fit{Used: used}
	}
	_, total := list.Newest()
	switch {
	case q.Day == nil:
		return Fit{Used: used, RetryAt: list.Reach(total-used+short) + q.Window.Length().Microseconds()}
	case usedSince(list, q.Day.Next)+amount <= q.Limit:
		return Fit{Used: used, RetryAt: q.Day.Opens}
	}
	return Fit{Used: used, RetryAt: q.Day.Reopens}
}

// Taken returns what the window holds now, and what floors keep beside it. Around
// the boundary of a day a call must fit the next one too, so that its floors may
// keep more than those of the day.
func (q *Question) Taken(list List) Fit {
	used, since := q.Used(list)
	switch {
	case len(q.Floors) == 0:
		return Fit{Used: used}
	case q.Day != nil:
		fit := q.taken(list, q.Day, q.Now)
		return Fit{Used: used, Kept: fit.Used + fit.Kept - used}
	}
	return Fit{Used: used, Kept: q.kept(since)}
}

// latest returns the last instant that an answer may name when an entry is
// stamped far ahead of now: without it, all that is used now would have left
// the window by then. Otherwise there is none.
func (q *Question) latest(ahead bool) int64 {
	if !ahead {
		return math.MaxInt64
	}
	return q.Now + q.Window.Horizon().Microseconds()
}

// NextFree returns when the next units of what is used return, and 0 when
// nothing is.
func (q *Question) NextFree(list List, used int64, ahead bool) int64 {
	at := int64(0)
	switch {
	case used <= 0:
		return 0
	case q.Window.Kind() == quota.KindSliding:
		_, total := list.Newest()
		at = list.Reach(total-used+1) + q.Window.Length().Microseconds()
	case q.Window.Estimate():
		below := *q
		below.Limit = used - 1
		at = below.estimate(list, 0).RetryAt
	case usedSince(list, q.Day.Next) < used:
		at = q.Day.Opens
	default: // all of it was spent around the boundary, and counts into the next day too
		at = q.Day.Reopens
	}
	return min(at, q.latest(ahead))
}

// estimate is Fits for a counter window: an estimate of the trailing length is
// what the present period holds and the part of the one before that still
// shows, rounded up. After a clock has stepped back the present period is that
// of the newest record.
func (q *Question) estimate(list List, amount int64) Fit {
	length := q.Window.Length().Microseconds()
	newest, total := list.Newest()
	start := max(q.Now, newest)
	start -= start % length
	upto := list.Before(start)
	present, before, end := total-upto, upto-list.Before(start-length), start+length
	fit := Fit{Used: present + share(before, end-max(q.Now, start), length)}
	left := q.Limit - amount - present
	switch {
	case fit.Used+amount <= q.Limit:
	case left >= 0:
		fit.RetryAt = end - showing(left, before, length)
	default:
		fit.RetryAt = end + length - showing(q.Limit-amount, present, length)
	}
	return fit
}

// hidden returns how much of an estimate's period before is taken for gone: all
// of it may have been spent at its end, and still be in the trailing window.
func (q *Question) hidden(list List) int64 {
	length := q.Window.Length().Microseconds()
	newest, _ := list.Newest()
	start := max(q.Now, newest)
	start -= start % length
	before := list.Before(start) - list.Before(start-length)
	return before - share(before, start+length-max(q.Now, start), length)
}

// share returns count*part/whole, rounded up.
func share(count, part, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(count), uint64(part))
	quo, rem := bits.Div64(hi, lo, uint64(whole))
	if rem > 0 {
		quo++
	}
	return int64(quo)
}

// showing returns the longest part of whole with share(count, part, whole) <= left.
func showing(left, count, whole int64) int64 {
	if left >= count {
		return whole
	}
	hi, lo := bits.Mul64(uint64(left), uint64(whole))
	quo, _ := bits.Div64(hi, lo, uint64(count))
	return int64(min(quo, math.MaxInt64))
}

// Retain returns the age at which a record that matters for horizon may go, in
// microseconds. See quota.Retention.
func Retain(horizon int64) int64 {
	return quota.Retention(time.Duration(horizon) * time.Microsecond).Microseconds()
}
