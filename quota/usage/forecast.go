package usage

import (
	"context"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Forecast is when a budget runs out if calls go on at the pace of the last
// hours. It is zero if the log is too short to tell.
type Forecast struct {
	Pace     float64       // what was spent in an hour, in the budget's measure
	PaceOver time.Duration // the time that the pace is taken from
	RunsOut  time.Time     // when nothing is left; zero if that is not before the end of the next window
}

const (
	paceTime = 3 * time.Hour // a pace is of that time, or of a quarter of a window that is shorter
	paceAge  = 3             // a log must be at least a third as long
)

// paceOver returns the time that the pace of a budget is taken from.
func paceOver(b *quota.Budget) time.Duration { return min(paceTime, b.Horizon()/4) }

// forecast sets the Forecast of a budget.
func (l *log) forecast(ctx context.Context, s *BudgetStatus, oldest time.Time) error {
	over := paceOver(&s.Budget)
	age := s.At.Sub(oldest)
	if oldest.IsZero() || age < over/paceAge {
		return nil
	}
	spent := quota.Units(0)
	over = min(over, age)
	sums, err := l.read(ctx, s.At.Add(time.Microsecond-over), time.Time{})
	if err != nil {
		return err
	}
	for i := range sums {
		isAdjusted := sums[i].Kind == quota.EntryCorrection || sums[i].Kind == quota.EntryNote
		if !isAdjusted { // they enter at once what was spent over hours or days
			spent += amount(s.Coverage, &sums[i])
		}
	}
	rate := float64(spent)/float64(over) + s.noteRate(max(over, s.At.Sub(later(s.Since, oldest))))
	s.Forecast = Forecast{Pace: rate * float64(time.Hour), PaceOver: over}
	s.RunsOut, err = runsOut(&s.Balance, rate, func(since, until time.Time) (quota.Units, error) {
		return l.held(ctx, s.Coverage, since, until)
	})
	return err
}

// noteRate returns what others spend in a nanosecond, by the notes of the
// window: each holds what was spent since the one before, or before the ledger
// lost it, so that only the whole window averages them.
func (s *BudgetStatus) noteRate(over time.Duration) float64 {
	return float64(s.Reported) / float64(over)
}

// runsOut returns when a window is full if rate more is spent in each
// nanosecond, or the zero time if that is not before the end of the next
// window. held returns what entries from one time to another count for.
func runsOut(b *quota.Balance, rate float64, held func(since, until time.Time) (quota.Units, error)) (time.Time, error) {
	limit, used := float64(b.Limit()), float64(b.Used)
	switch {
	case used >= limit:
		return b.At, nil
	case rate == 0:
		return time.Time{}, nil
	case b.Budget.Window.Kind() == quota.KindCalendar:
		return dayRunsOut(b, rate), nil
	}
	length := b.Budget.Window.Length()
	if used+rate*float64(length) < limit {
		return time.Time{}, nil
	}
	f := &fall{rate: rate, limit: limit, used: used, finest: max(length/4096, time.Second), queries: maxQueries}
	f.leaving = func(from, to time.Duration) (quota.Units, error) {
		begin := b.At.Add(time.Microsecond - length)
		return held(begin.Add(from), begin.Add(to))
	}
	const parts = 16
	for i := range time.Duration(parts) {
		if found, err := f.search(i*length/parts, (i+1)*length/parts); err != nil || found {
			return b.At.Add(f.at).UTC(), err
		}
	}
	return time.Time{}, nil
}

// dayRunsOut is runsOut for a calendar window: that of now, or the next one.
func dayRunsOut(b *quota.Balance, rate float64) time.Time {
	window, limit := b.Budget.Window, float64(b.Limit())
	day := window.Day(b.At)
	if left := (limit - float64(b.Used)) / rate; left < float64(day.Opens.Sub(b.At)) { // until then, calls must fit what is left of it
		return b.At.Add(time.Duration(left)).UTC()
	}
	begin := day.Next
	if begin.Before(b.At) { // within the margin
		begin = b.At
	}
	if left := limit / rate; left < float64(window.Day(day.Opens).Next.Sub(begin)) {
		return begin.Add(time.Duration(left)).UTC()
	}
	return time.Time{}
}

// maxQueries is how many sums one forecast reads before it stops splitting.
const maxQueries = 200

// fall follows a sliding window into the future.
type fall struct {
	rate, limit float64
	leaving     func(from, to time.Duration) (quota.Units, error) // what leaves the window
	finest      time.Duration
	queries     int

	used float64 // at the end of what was searched
	at   time.Duration
}

// search looks for the time at which the window is full between two times from
// now on, and sets at. What is before was searched already. Once maxQueries are
// made, calls count as if they left evenly from one time to the other.
func (f *fall) search(from, to time.Duration) (found bool, err error) {
	grown := f.used + f.rate*float64(to-from)
	switch {
	case grown >= f.limit && to-from <= f.finest:
		f.at = from + time.Duration((f.limit-f.used)/f.rate)
		return true, nil
	case grown >= f.limit && f.queries > 0:
		middle := from + (to-from)/2
		if found, err := f.search(from, middle); found || err != nil {
			return found, err
		}
		return f.search(middle, to)
	}
	f.queries--
	left, err := f.leaving(from, to)
	if err != nil {
		return false, err
	}
	used := max(0, grown-float64(left))
	if used >= f.limit {
		f.at = from + time.Duration(float64(to-from)*(f.limit-f.used)/(used-f.used))
		return true, nil
	}
	f.used = used
	return false, nil
}
