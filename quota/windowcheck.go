package quota

import (
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

func (w Window) check() error {
	length := micros(w.is.Length)
	if w.is.Kind == engine.Sliding && (length < time.Millisecond || length > MaxHistory) {
		return fmt.Errorf("a window of %s; set it to 1ms to 400 days, in whole microseconds", length)
	}
	if w.is.Margin < 0 || w.Margin() > time.Hour {
		return fmt.Errorf("a margin of %s, or a length in parts of a microsecond; set the margin to 0 to 1h, and "+
			"both in whole microseconds", w.Margin())
	}
	switch w.is.Kind {
	case engine.Sliding:
		return nil
	case engine.Calendar:
		return w.checkCalendar()
	case engine.Bucket:
		isRestore, in := 1 <= w.is.Restore && w.is.Restore <= int64(MaxUnits), micros(w.is.Every)
		if !isRestore || in < time.Millisecond || in > MaxHistory {
			return fmt.Errorf("a bucket that restores %s; restore 1 to %d units in 1ms to 400 days", w.Rate(), MaxUnits)
		}
		return nil
	case engine.InFlight:
		if length < time.Second || length > 24*time.Hour {
			return fmt.Errorf("a lease of %s; set it to 1s to 24h", length)
		}
		return nil
	}
	return fmt.Errorf("no window; set one with quota.Sliding, Daily, Bucket or another function")
}

func (w Window) checkCalendar() error {
	at, length := micros(w.is.Start), micros(w.is.Length)
	switch isStep := w.is.Unit == engine.Steps; {
	case w.is.Zone == nil:
		return fmt.Errorf("a calendar window without a zone; pass one, such as time.UTC")
	case at < 0 || at >= 24*time.Hour || at%time.Minute != 0:
		return fmt.Errorf("a calendar window that begins at %s; pass a time of day in whole minutes", at)
	case isStep && !isStepLength(length):
		return fmt.Errorf("a window of every %s on the clock; set it to 1s to 12h, a whole part of a day", length)
	case isStep && w.Margin() > length/4:
		return fmt.Errorf("a margin of %s in a window of every %s; set it to a quarter at most", w.Margin(), length)
	case w.is.Unit == engine.Weeks && (w.is.First < 0 || w.is.First > 6):
		return fmt.Errorf("a week that begins on day %d; pass time.Sunday to time.Saturday", w.is.First)
	case w.is.Unit == engine.Months && (w.is.First < 1 || w.is.First > 28):
		return fmt.Errorf("a month that begins on day %d; pass 1 to 28", w.is.First)
	}
	return nil
}

// isStepLength reports whether a day has a whole number of steps.
func isStepLength(length time.Duration) bool {
	return time.Second <= length && length <= 12*time.Hour && (24*time.Hour)%length == 0
}
