// Package decide decides whether an amount fits into a budget's window, and
// if not, when it would. The ledgers written in Go share it. The Redis
// ledger's script does the same in Lua, and the suite in ledgertest checks
// that both agree.
//
// An instant is a time in microseconds since the Unix epoch.
package decide

import (
	"math"
	"math/bits"
	"time"

	"github.com/ration-dev/ration/quota"
)

// List is the running total of what one coverage counts, oldest record first.
// Totals never fall; a record that counts 0 repeats the one before it.
type List interface {
	// Newest returns the stamp of the newest record and the total after it, or
	// zeros for an empty list.
	Newest() (stamp, total int64)
	// Before returns the total of the records stamped before an instant.
	Before(at int64) int64
	// Reach returns the stamp of the oldest record with at least this total,
	// which must not be more than the newest.
	Reach(total int64) int64
}

// CheckEvery is how often, in microseconds, a log is searched for the entry
// that a batch knows. The other checks, of every batch, cost nothing.
const CheckEvery = int64(time.Minute / time.Microsecond)

// ClientMemory is how long, in microseconds, a ledger remembers a client's
// last batch, so that a batch that is sent again is not charged twice.
const ClientMemory = int64(10 * time.Minute / time.Microsecond)

// Amount returns how much units and calls count for under a coverage.
func Amount(c *quota.Coverage, units, calls int64) int64 {
	return int64(c.Measure.Of(quota.Units(units), quota.Units(calls)))
}

// Question is one charge at one instant.
type Question struct {
	Now    int64
	Window *quota.Window
	Limit  int64
	Day    *Day // of a daily window at Now; nil for other windows

	Floors     []Floor // of a sliding or daily window
	FloorUntil int64   // how long before a daily window's Next the floors end; 0 is never
}

// Fit is how an amount fits: what is used, what floors keep for other callers,
// and the first instant at which the amount would fit if nothing else were
// spent. RetryAt is 0 if it fits now.
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

// Used returns what the window holds and the instant at which it begins, which
// is 0 for an estimate.
func (q *Question) Used(list List) (used, since int64) {
	if q.Window.Estimate() {
		return q.estimate(list, 0).Used, 0
	}
	since = q.since()
	return usedSince(list, since), since
}

// Since returns the first instant that a window sees at an instant. The window
// is not an estimate.
func Since(w *quota.Window, at int64) int64 {
	q := Question{Now: at, Window: w}
	if w.Kind() == quota.KindDaily {
		q.Day = new(DayOf(*w, at))
	}
	return q.since()
}

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

// Fits reports how amount fits. Amount and floors together must be at most
// Limit; if the floors end, amount alone must be.
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

// UsedAndKept returns what the window holds now and what floors keep beside it.
// Around the boundary of a day, the floors of the next day may keep more than
// those of the day, because a call must fit both.
func (q *Question) UsedAndKept(list List) Fit {
	used, since := q.Used(list)
	switch {
	case len(q.Floors) == 0:
		return Fit{Used: used}
	case q.Day != nil:
		fit := q.usedAndKeptAt(list, q.Day, q.Now)
		return Fit{Used: used, Kept: fit.Used + fit.Kept - used}
	}
	return Fit{Used: used, Kept: q.kept(since)}
}

// latestRetry returns the upper bound of a RetryAt if an entry is stamped ahead
// of now: by then all that is used now has left the window. Otherwise there is
// no bound.
func (q *Question) latestRetry(ahead bool) int64 {
	if !ahead {
		return math.MaxInt64
	}
	return q.Now + q.Window.Horizon().Microseconds()
}

// NextFree returns when the next of the used units return, or 0 if none
// are used.
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
	default: // all of it was spent around the boundary and counts in the next day too
		at = q.Day.Reopens
	}
	return min(at, q.latestRetry(ahead))
}

// estimate is Fits for a counter window. It estimates the trailing length as
// the count of the present period and, rounded up, the part of the count before
// it that the trailing length still covers. After the clock has stepped back,
// the present period is that of the newest record.
func (q *Question) estimate(list List, amount int64) Fit {
	length := q.Window.Length().Microseconds()
	newest, total := list.Newest()
	start := max(q.Now, newest)
	start -= start % length
	end := start + length
	upto := list.Before(start)
	present, before := total-upto, upto-list.Before(start-length)
	fit := Fit{Used: present + share(before, end-max(q.Now, start), length)}
	left := q.Limit - amount - present
	switch {
	case fit.Used+amount <= q.Limit:
	case left >= 0:
		fit.RetryAt = end - longestShare(left, before, length)
	default:
		fit.RetryAt = end + length - longestShare(q.Limit-amount, present, length)
	}
	return fit
}

// hidden returns how much of the previous period's count an estimate leaves
// out, all of which may still be in the trailing window.
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

// longestShare returns the longest part of whole with
// share(count, part, whole) <= left.
func longestShare(left, count, whole int64) int64 {
	if left >= count {
		return whole
	}
	hi, lo := bits.Mul64(uint64(left), uint64(whole))
	quo, _ := bits.Div64(hi, lo, uint64(count))
	return int64(min(quo, math.MaxInt64))
}

// Retain is quota.Retention in microseconds: how long a record is kept that
// matters for horizon.
func Retain(horizon int64) int64 {
	return quota.Retention(time.Duration(horizon) * time.Microsecond).Microseconds()
}
