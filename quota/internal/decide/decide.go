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
	// Last returns the total after the newest record, 0 for an empty list.
	Last() int64
	// Before returns the total of the records stamped before an instant.
	Before(at int64) int64
	// Reach returns the stamp of the oldest record at which the total is at
	// least so much. There is one: callers ask for no more than Last.
	Reach(total int64) int64
}

// Counts are the two counters of an estimate: the period that an instant lies
// in, and the one before. After a clock has stepped back the periods may lie ahead
// of the instant.
type Counts interface {
	Periods(length, now int64) Periods
}

// Periods are the two counters: a period's, which begins at Start, and those of the one before.
type Periods struct{ Start, Present, Before int64 }

// Add counts an amount at an instant.
func (p *Periods) Add(length, at, amount int64) {
	*p = p.At(length, at)
	p.Present += amount
}

// Correct adds delta to the period that an instant lies in, if it is still counted.
func (p *Periods) Correct(length, at, delta int64) {
	switch at - at%length {
	case p.Start:
		p.Present += delta
	case p.Start - length:
		p.Before += delta
	}
}

// At returns the counters as they are at an instant.
func (p Periods) At(length, now int64) Periods {
	switch start := now - now%length; {
	case start <= p.Start:
		return p
	case start == p.Start+length:
		return Periods{Start: start, Before: p.Present}
	default:
		return Periods{Start: start}
	}
}

// Question is one charge at one instant.
type Question struct {
	Now    int64
	Window quota.Window
	Limit  int64
	Day    Day // of a daily window at Now
}

// Day is a quota.Day in microseconds.
type Day struct{ Start, Since, Opens, Next, Reopens int64 }

// DayOf returns the day of a daily window at now.
func DayOf(w quota.Window, now int64) Day {
	d := w.Day(time.UnixMicro(now))
	return Day{d.Start.UnixMicro(), d.Since.UnixMicro(), d.Opens.UnixMicro(), d.Next.UnixMicro(), d.Reopens.UnixMicro()}
}

// Holds reports whether the day is still the window's at now.
func (d Day) Holds(now int64) bool { return d.Start <= now && now < d.Opens }

// Used returns what the window of a sliding or daily question holds, and since when it counts.
func (q Question) Used(list List) (used, since int64) {
	since = q.Day.Since
	if q.Window.Kind() == quota.KindSliding {
		since = q.Now - q.Window.Length().Microseconds() + 1
	}
	return list.Last() - list.Before(since), since
}

// Fits reports what is used, and when amount fits: 0 for now, else the first
// instant at which it would if nobody else spent. Amount is at most Limit.
func (q Question) Fits(list List, amount int64) (used, retryAt int64) {
	used, since := q.Used(list)
	short := used + amount - q.Limit
	switch {
	case short <= 0:
		return used, 0
	case q.Window.Kind() == quota.KindSliding:
		return used, list.Reach(list.Before(since)+short) + q.Window.Length().Microseconds()
	case list.Last()-list.Before(q.Day.Next)+amount <= q.Limit:
		return used, q.Day.Opens
	}
	return used, q.Day.Reopens
}

// NextFree returns when the next units return, and 0 when nothing is used.
func (q Question) NextFree(list List) int64 {
	used, since := q.Used(list)
	switch {
	case used <= 0:
		return 0
	case q.Window.Kind() == quota.KindSliding:
		return list.Reach(list.Before(since)+1) + q.Window.Length().Microseconds()
	}
	return q.Day.Opens
}

// Estimate is Fits for a counter window: an estimate of the trailing length is
// what the present period holds and the part of the one before that still
// shows, rounded up.
func (q Question) Estimate(counts Counts, amount int64) (used, retryAt int64) {
	length := q.Window.Length().Microseconds()
	p := counts.Periods(length, q.Now)
	end := p.Start + length
	used = p.Present + share(p.Before, end-max(q.Now, p.Start), length)
	if used+amount <= q.Limit {
		return used, 0
	}
	if room := q.Limit - amount - p.Present; room >= 0 {
		return used, end - showing(room, p.Before, length)
	}
	return used, end + length - showing(q.Limit-amount, p.Present, length)
}

// EstimateFree returns when the estimate next falls, and 0 when nothing is used.
func (q Question) EstimateFree(counts Counts) int64 {
	used, _ := q.Estimate(counts, 0)
	if used <= 0 {
		return 0
	}
	below := q
	below.Limit = used - 1
	_, at := below.Estimate(counts, 0)
	return at
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

// showing returns the longest part of whole with share(count, part, whole) <= room.
func showing(room, count, whole int64) int64 {
	if room >= count {
		return whole
	}
	hi, lo := bits.Mul64(uint64(room), uint64(whole))
	quo, _ := bits.Div64(hi, lo, uint64(count))
	return int64(min(quo, math.MaxInt64))
}

// Kept is how long a log without a key keeps its entries at least, in
// microseconds, so that a day's budget added later is answered right.
const Kept = int64(26 * time.Hour / time.Microsecond)

// Retain returns the age at which a record that matters for horizon may go: an
// eighth more, and two minutes at least, so that a clock that is set back
// by less finds what its windows then hold.
func Retain(horizon int64) int64 {
	return horizon + max(horizon/8, int64(2*time.Minute/time.Microsecond))
}
