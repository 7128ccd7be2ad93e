package usage

import (
	"cmp"
	"math"
	"time"
	"unique"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

const (
	// recent is how far back slices are read by every Fill; older ones are read
	// every wholeEvery only, because a log may be years long.
	recent     = 48 * time.Hour
	wholeEvery = time.Hour
)

// series is the history of one budget, or of a whole account, as Fill reads it.
type series struct {
	budget   string
	coverage *engine.Coverage
	window   quota.Window // invalid for a whole account
	days     quota.Window
	zone     *time.Location

	before      catalog.Fill
	width       time.Duration // of slices
	live        int64         // slices hold what the log says since then
	from        int64         // what is read now begins here
	whole       bool          // from is live
	fold        int64         // slices that begin before it stay as they are, in milliseconds
	replaceFrom int64         // the first slice that is read now, in milliseconds

	sums  map[catalog.SumKey]catalog.SumAmount
	peaks map[int64]int64 // by day

	day quota.Day // in which the last slice was
}

// sliceWidth returns the width of slices: so narrow that what a log drops in
// the time beyond its windows is whole slices.
func sliceWidth(retention time.Duration) time.Duration {
	return min(max((retention/18).Truncate(time.Minute), time.Minute), 24*time.Hour)
}

// begin decides what to read, given what the log holds. What it does not hold
// any more, or will drop soon, is frozen: it stays in the history as it is.
func (s *series) begin(f *filler) {
	first := s.before.Until == 0
	width := sliceWidth(f.retention)
	s.width, s.live = cmp.Or(s.before.Width, width), s.before.Live
	if !first {
		s.freeze(f)
	}
	age := f.at - s.before.Whole
	isRecent := age >= 0 && age < wholeEvery.Microseconds()
	s.whole = first || s.width != width || !isRecent
	s.width = width
	s.from, s.replaceFrom = s.live, 1
	if !s.whole {
		_, begin, _ := s.slice(max(0, f.at-recent.Microseconds()))
		if at := begin * 1000; at > s.live {
			s.from, s.replaceFrom = at, begin
		}
	}
}

// freeze sets live and fold.
func (s *series) freeze(f *filler) {
	_, _, end := s.slice(max(0, f.at-(f.retention-time.Second).Microseconds()))
	if f.oldest < math.MaxInt64 {
		// Slices before the oldest entry, of which the log has nothing left: it
		// was lost, or dropped early.
		_, begin, _ := s.slice(f.oldest)
		if s.before.First > 0 && s.before.First < begin {
			end = max(end, begin*1000)
		}
	}
	if f.oldest >= s.before.Until { // nothing is left of what was read
		end = s.before.Until
	}
	s.live = max(s.live, min(end, s.before.Until))
	if fold := ceilMillis(s.live); s.live > s.before.Live && s.before.First > 0 && s.before.First < fold {
		s.fold = fold
	}
}

// ceilMillis converts microseconds to milliseconds, rounded up.
func ceilMillis(micros int64) int64 { return (micros + 999) / 1000 }

// slice returns the day and the slice of a time, in milliseconds, and the time
// at which the next slice begins.
func (s *series) slice(at int64) (day, begin, next int64) {
	t := time.UnixMicro(at)
	if t.Before(s.day.Start) || !t.Before(s.day.Next) || s.day.Next.IsZero() {
		s.day = s.days.Day(t)
	}
	width := s.width.Microseconds()
	floor := at - at%width
	begin = max(floor, s.day.Start.UnixMicro())
	next = min(floor+width, s.day.Next.UnixMicro())
	return s.day.Start.UnixMilli(), begin / 1000, next
}

// add adds an entry.
func (s *series) add(e *quota.Entry, labels unique.Handle[catalog.SumLabels]) {
	if e.Units == 0 && e.Calls == 0 || !s.coverage.Covers(e.Method, e.Caller.Lane, e.Caller.Region) {
		return
	}
	day, begin, _ := s.slice(e.At.UnixMicro())
	key := catalog.SumKey{Day: day, Slice: begin, Labels: labels}
	amount := s.sums[key]
	amount.Units += int64(e.Units)
	amount.Calls += int64(e.Calls)
	s.sums[key] = amount
}

func labelsOf(e *quota.Entry) unique.Handle[catalog.SumLabels] {
	return unique.Make(catalog.SumLabels{Method: name(e.Method), Region: name(e.Caller.Region),
		Job: Spender(e.Kind, e.Caller.Job), Lane: name(e.Caller.Lane)})
}
