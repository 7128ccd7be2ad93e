package jobs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/ration-dev/ration/costs/duration"
)

// Schedule is when a region is fetched: a cron line in a time zone. Its ticks
// are the minutes at which the zone's clock shows what the line says. So a time
// that the clock skips when daylight saving begins does not come on that day
// (02:30 in New York on 2026-03-08; midnight in Cairo on 2026-04-24), and one that
// the clock shows twice when it ends comes twice, an hour apart (01:30 in New
// York on 2026-11-01). @every counts from the Unix epoch, on no clock.
//
// The zero Schedule never comes. A Schedule is safe for concurrent use.
type Schedule struct {
	spec string
	zone *time.Location
	cron cron.Schedule
}

// ParseSchedule reads a cron line of five fields, or a descriptor such as
// @hourly or @every 6h, in a zone; nil is UTC. It refuses a line that never comes, such as
// the 30th of February, and one that comes more than once a minute. Sunday is 0,
// and where both a day of the month and a weekday are given either will do, as
// github.com/robfig/cron v3.0.1 reads them.
func ParseSchedule(spec string, zone *time.Location) (Schedule, error) {
	if strings.Contains(spec, "TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q names a zone: write it as timezone", spec)
	}
	parsed, err := cron.ParseStandard(standardDelay(spec))
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q is no cron line (%s): write minute hour day month weekday, such as \"0 */6 * * *\"", spec, strings.TrimSpace(err.Error()))
	}
	switch parsed := parsed.(type) {
	case cron.ConstantDelaySchedule:
		if parsed.Delay < time.Minute {
			return Schedule{}, fmt.Errorf("schedule %q comes more than once a minute: write @every 1m at least", spec)
		}
	case *cron.SpecSchedule:
		if field := looseField(spec); field != "" {
			return Schedule{}, fmt.Errorf("schedule %q is no cron line (%q is no list of numbers and ranges): write minute hour day month weekday, such as \"0 */6 * * *\"", spec, field)
		}
		if !hasDay(parsed) {
			return Schedule{}, fmt.Errorf("schedule %q never comes: write a day that its month has", spec)
		}
	}
	return Schedule{spec: spec, zone: zone, cron: parsed}, nil
}

// standardDelay returns spec with the delay of @every in the units that cron
// reads, which has none for days.
func standardDelay(spec string) string {
	if delay, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := duration.Parse(strings.TrimSpace(delay)); err == nil {
			return "@every " + d.String()
		}
	}
	return spec
}

var cronField = regexp.MustCompile(`^(([*?]|\w+(-\w+)?)(/\d+)?)(,([*?]|\w+(-\w+)?)(/\d+)?)*$`)

// looseField returns the first field of a line that cron reads and nobody can
// mean, such as "," (no minute at all) or "*-5" (every minute), and else "".
func looseField(spec string) string {
	if strings.HasPrefix(spec, "@") {
		return ""
	}
	for _, field := range strings.Fields(spec) {
		if !cronField.MatchString(field) {
			return field
		}
	}
	return ""
}

// hasDay reports whether one of its months has one of its days of the month. A
// weekday beside them would still come, but who writes the 31st of April means it.
func hasDay(s *cron.SpecSchedule) bool {
	for month := time.January; month <= time.December; month++ {
		days := time.Date(2024, month+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if s.Month&(1<<month) != 0 && s.Dom&(1<<(days+1)-2) != 0 {
			return true
		}
	}
	return false
}

// IsZero reports whether s never comes.
func (s Schedule) IsZero() bool { return s.cron == nil }

// String returns the line as it was written.
func (s Schedule) String() string { return s.spec }

// Zone returns the zone whose clock the line is read on. It is never nil, and
// UTC for the zero Schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// Next returns the first tick after t, in UTC, and the zero time if there is
// none within five years.
//
// cron is asked for each stretch of time between two changes of the zone's
// clock by itself: across them v3.0.1 answers by where it starts from, and skips
// whole days (measured: 2026-03-29 in Beirut, which has no midnight).
func (s Schedule) Next(t time.Time) time.Time {
	t = t.Round(0)
	if every, ok := s.cron.(cron.ConstantDelaySchedule); ok {
		return floor(t, every.Delay).Add(every.Delay)
	}
	if s.cron == nil {
		return time.Time{}
	}
	for at := t; ; {
		_, offset := at.In(s.Zone()).Zone()
		_, end := at.In(s.Zone()).ZoneBounds()
		next := s.cron.Next(t.In(time.FixedZone("", offset)))
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next.UTC()
		}
		at, t = end, end.Add(-time.Nanosecond)
	}
}

// Tick returns the latest tick at or before now, the one whose pass a run at
// now works on, and the zero time if there was none in five years.
func (s Schedule) Tick(now time.Time) time.Time {
	if every, ok := s.cron.(cron.ConstantDelaySchedule); ok {
		return floor(now, every.Delay)
	}
	const longest = 5 * 366 * 24 * time.Hour
	for back := time.Hour; ; back = min(2*back, longest) {
		tick := s.Next(now.Add(-back))
		if tick.IsZero() || tick.After(now) {
			if back == longest {
				return time.Time{}
			}
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
}

// floor counts from the Unix epoch, so that every process finds the same
// ticks. Cron makes a delay whole seconds, one at least.
func floor(t time.Time, every time.Duration) time.Time {
	delay := int64(every / time.Second)
	return time.Unix(t.Unix()/delay*delay, 0).UTC()
}
