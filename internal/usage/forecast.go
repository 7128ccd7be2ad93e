package usage

import (
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Forecast is when a budget runs out if calls go on at the pace of the last
// hours. It is zero if the log is too short to tell.
type Forecast struct {
	Pace     float64       // what was spent in an hour, in the budget's measure
	PaceOver time.Duration // the time that the pace is taken from
	// when nothing is left; zero if that is not before the end of the next window, or in a cooldown
	RunsOut time.Time
}

const (
	paceTime = 3 * time.Hour // a pace is of that time, or of a quarter of a window that is shorter
	paceAge  = 3             // a log must be at least a third as long
)

// paceOver returns the time that the pace of a budget is taken from.
func paceOver(b *quota.Budget) time.Duration { return min(paceTime, b.Horizon()/4) }

// forecast sets the Forecast of a budget.
func (s *scan) forecast() {
	// no pace of calls says how many there are at once
	if s.Budget.PerKey || s.Budget.Window.Kind() == engine.InFlight {
		return
	}
	over := paceOver(&s.Budget)
	age := s.At.Sub(s.oldest)
	if s.oldest.IsZero() || age < over/paceAge {
		return
	}
	over = min(over, age)
	rate := float64(s.spent)/float64(over) + s.noteRate(max(over, s.At.Sub(later(s.Since, s.oldest))))
	s.Forecast = Forecast{Pace: rate * float64(time.Hour), PaceOver: over, RunsOut: s.runsOut(rate)}
}

// noteRate returns what others spend in a nanosecond, by the notes of the
// window: each holds what was spent since the one before, or before the ledger
// lost it, so that only the whole window averages them.
func (s *BudgetStatus) noteRate(over time.Duration) float64 {
	return float64(s.Reported) / float64(over)
}

// runsOut returns when a window is full if rate more is spent in each
// nanosecond, or the zero time if that is not before the end of the next
// window.
func (s *scan) runsOut(rate float64) time.Time {
	limit, used := float64(s.Limit()), float64(s.Used)
	switch {
	case used >= limit:
		return s.At
	case rate == 0, s.Cooldown != nil: // the pace does not go on
		return time.Time{}
	case s.Budget.Window.Kind() == engine.Calendar:
		return dayRunsOut(&s.Balance, rate)
	case s.Budget.Window.Kind() == engine.Bucket:
		grows := rate - 1/float64(s.Budget.Window.UnitTime())
		if in := (limit - used) / grows; grows > 0 && in < float64(s.Budget.Horizon()) {
			return s.At.Add(time.Duration(in)).UTC()
		}
		return time.Time{}
	}
	at := s.At
	for _, left := range s.leaving {
		grown := used + rate*float64(s.step)
		if grown >= limit {
			return at.Add(time.Duration((limit - used) / rate)).UTC()
		}
		used = max(0, grown-float64(left))
		at = at.Add(s.step)
	}
	return time.Time{}
}

// dayRunsOut is runsOut for a calendar window: that of now, or the next one.
func dayRunsOut(b *quota.Balance, rate float64) time.Time {
	window, limit := b.Budget.Window, float64(b.Limit())
	day := window.Day(b.At)
	// until then, calls must fit what is left of it
	if left := (limit - float64(b.Used)) / rate; left < float64(day.Opens.Sub(b.At)) {
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
