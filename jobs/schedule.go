package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is when a region is fetched: a cron line in a time zone. The zero
// Schedule never comes.
type Schedule struct {
	spec string
	zone *time.Location
	cron cron.Schedule
}

// ParseSchedule reads a cron line of five fields, or a descriptor such as
// @hourly or @every 6h, in a zone.
func ParseSchedule(spec string, zone *time.Location) (Schedule, error) {
	if strings.Contains(spec, "TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q names a zone: write it as timezone", spec)
	}
	parsed, err := cron.ParseStandard(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q is no cron line (%s): write minute hour day month weekday, such as \"0 */6 * * *\"", spec, strings.TrimSpace(err.Error()))
	}
	if every, ok := parsed.(cron.ConstantDelaySchedule); ok && every.Delay < time.Minute {
		return Schedule{}, fmt.Errorf("schedule %q comes more than once a minute: write @every 1m at least", spec)
	}
	s := Schedule{spec: spec, zone: zone, cron: parsed}
	if s.Next(time.Now()).IsZero() {
		return Schedule{}, fmt.Errorf("schedule %q never comes: write a day that its month has", spec)
	}
	return s, nil
}

// IsZero reports whether s never comes.
func (s Schedule) IsZero() bool { return s.cron == nil }

// String returns the line as it was written.
func (s Schedule) String() string { return s.spec }

// Next returns the first instant after t, and the zero time if there is none.
func (s Schedule) Next(t time.Time) time.Time {
	switch every := s.cron.(type) {
	case nil:
		return time.Time{}
	case cron.ConstantDelaySchedule: // counted from the Unix epoch, so that every run finds the same ticks
		delay := int64(every.Delay / time.Second) // cron makes it whole seconds, one at least
		return time.Unix((t.Unix()/delay+1)*delay, 0).UTC()
	}
	next := s.cron.Next(t.In(s.zone))
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// Tick returns the latest instant at or before now, the tick whose pass a run
// at now works on, and the zero time if there was none in five years.
func (s Schedule) Tick(now time.Time) time.Time {
	const longest = 5 * 366 * 24 * time.Hour
	for back := time.Hour; back <= longest; back *= 2 {
		tick := s.Next(now.Add(-back))
		if tick.IsZero() || tick.After(now) {
			continue
		}
		for {
			next := s.Next(tick)
			if next.IsZero() || next.After(now) {
				return tick
			}
			tick = next
		}
	}
	return time.Time{}
}
