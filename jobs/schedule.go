package jobs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/ration-dev/ration/internal/human"
)

// Schedule is a cron line in a time zone. Its ticks are the minutes at which
// the zone's clock matches the line. A time that the clock skips when daylight
// saving time begins has no tick on that day (02:30 in New York on 2026-03-08;
// midnight in Cairo on 2026-04-24), and one that the clock repeats when it ends
// has two, an hour apart (01:30 in New York on 2026-11-01). @every counts from
// the Unix epoch in any zone.
//
// The zero Schedule has no ticks. A Schedule is safe for concurrent use.
type Schedule struct {
	spec string
	zone *time.Location
	cron cron.Schedule
}

// ParseSchedule parses a cron line of five fields, or a descriptor such as
// @hourly or @every 6h. A nil zone means UTC. Sunday is 0, and if both a day of
// the month and a weekday are given, either matches, as in
// github.com/robfig/cron. ParseSchedule returns an error for a line that never
// matches, such as 30 February, and for one with several ticks a minute.
func ParseSchedule(spec string, zone *time.Location) (Schedule, error) {
	if strings.Contains(spec, "TZ=") {
		return Schedule{}, fmt.Errorf("schedule %q names a zone: write it as timezone", spec)
	}
	parsed, err := cron.ParseStandard(standardDelay(spec))
	if err != nil {
		reason := strings.TrimSpace(err.Error())
		if strings.Contains(reason, "(7) above maximum (6)") {
			reason = "Sunday is 0"
		}
		return Schedule{}, malformedSchedule(spec, reason)
	}
	switch parsed := parsed.(type) {
	case cron.ConstantDelaySchedule:
		if parsed.Delay < time.Minute {
			return Schedule{}, fmt.Errorf("schedule %q has more than one tick a minute: write at least @every 1m", spec)
		}
	case *cron.SpecSchedule:
		if field := looseField(spec); field != "" {
			return Schedule{}, malformedSchedule(spec, fmt.Sprintf("%q is not a list of numbers and ranges", field))
		}
		if field, most := wideStep(spec); field != "" {
			return Schedule{}, malformedSchedule(spec, fmt.Sprintf("the step of %q is more than %d", field, most))
		}
		if !hasDay(parsed) {
			return Schedule{}, fmt.Errorf("schedule %q has no tick: write a day that its month has", spec)
		}
	}
	return Schedule{spec: spec, zone: zone, cron: parsed}, nil
}

func malformedSchedule(spec, reason string) error {
	return fmt.Errorf("schedule %q is not a cron line (%s): write minute hour day month weekday, such as \"0 */6 * "+
		"* *\"", spec, reason)
}

// standardDelay returns spec with the delay of @every in units that cron knows:
// it has none for days.
func standardDelay(spec string) string {
	if delay, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := human.ParseDuration(strings.TrimSpace(delay)); err == nil {
			return "@every " + d.String()
		}
	}
	return spec
}

var cronField = regexp.MustCompile(`^(([*?]|\w+(-\w+)?)(/\d+)?)(,([*?]|\w+(-\w+)?)(/\d+)?)*$`)

// looseField returns the first field that cron accepts although it is
// malformed, such as "," (no minute at all) or "*-5" (every minute), or "".
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

// wideStep returns the first field with a step that is longer than the field,
// and its length: */66 hours would be midnight alone. field is "" if there
// is none.
func wideStep(spec string) (field string, most int) {
	if strings.HasPrefix(spec, "@") {
		return "", 0
	}
	lengths := []int{60, 24, 31, 12, 7} // minutes, hours, days, months, weekdays
	for i, field := range strings.Fields(spec) {
		for item := range strings.SplitSeq(field, ",") {
			_, step, _ := strings.Cut(item, "/")
			if n, err := strconv.Atoi(step); err == nil && n > lengths[i] {
				return field, lengths[i]
			}
		}
	}
	return "", 0
}

// hasDay reports whether one of the schedule's months has one of its days of
// the month. A weekday would match even so, but 31 April is a mistake.
func hasDay(s *cron.SpecSchedule) bool {
	for month := time.January; month <= time.December; month++ {
		days := time.Date(2024, month+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if s.Month&(1<<month) != 0 && s.Dom&(1<<(days+1)-2) != 0 {
			return true
		}
	}
	return false
}

// String returns the line that was parsed.
func (s Schedule) String() string { return s.spec }

// Zone returns the time zone of the schedule. It is never nil.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// Next returns the first tick after t, in UTC, or the zero time if there is
// none within five years.
func (s Schedule) Next(t time.Time) time.Time {
	t = t.Round(0)
	if every, ok := s.cron.(cron.ConstantDelaySchedule); ok {
		return floor(t, every.Delay).Add(every.Delay)
	}
	if s.cron == nil {
		return time.Time{}
	}
	// Search between two changes of the zone's clock at a time: across a
	// change, cron v3.0.1 may skip a day (2026-03-29 in Beirut, which has
	// no midnight).
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

// Tick returns the latest tick at or before now, or the zero time if there was
// none in five years. A run at now works on its pass.
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

// floor rounds t down to a multiple of every since the Unix epoch, so that all
// processes agree on the ticks. Cron delays are whole seconds, at least one.
func floor(t time.Time, every time.Duration) time.Time {
	delay := int64(every / time.Second)
	return time.Unix(t.Unix()/delay*delay, 0).UTC()
}
