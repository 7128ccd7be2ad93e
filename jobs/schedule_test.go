package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/jobs"
)

// changing are zones whose clocks change in many ways: by one hour,
// half an hour (Lord Howe), two (Troll), at midnight (Beirut, Cairo, Santiago,
// Havana, the Azores), at the odd quarter (Chatham).
var changing = []string{"America/New_York", "Europe/Berlin", "Europe/London", "Asia/Beirut", "Africa/Cairo",
	"America/Santiago", "America/Havana",
	"Atlantic/Azores", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Chatham", "Africa/Casablanca",
	"America/Nuuk"}

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestAScheduleRefusesWhatIsNoCronLine(t *testing.T) {
	for spec, want := range map[string]string{
		"":                    "empty spec",
		"* * * *":             "expected exactly 5 fields, found 4",
		"0 0 * * * *":         "expected exactly 5 fields, found 6",
		"60 0 * * *":          "above maximum (59)",
		"0 24 * * *":          "above maximum (23)",
		"0 0 0 * *":           "below minimum (1)",
		"0 0 32 * *":          "above maximum (31)",
		"0 0 * 13 *":          "above maximum (12)",
		"0 0 * * 7":           "Sunday is 0",
		"0 0 * * XYZ":         "is not a cron line",
		"* 5 j * *":           "is not a cron line",
		"5-1 * * * *":         "beyond end of range",
		"15/0 * * * *":        "should be a positive number",
		"1-2-3 * * * *":       "too many hyphens",
		"*/2/3 * * * *":       "too many slashes",
		"-1 * * * *":          "is not a cron line",
		", * * * *":           `"," is not a list of numbers`,
		"1,,2 * * * *":        `"1,,2" is not a list of numbers`,
		"*-5 * * * *":         `"*-5" is not a list of numbers`,
		"+5 * * * *":          `"+5" is not a list of numbers`,
		"0 */66 * * *":        `the step of "*/66" is more than 24`,
		"0,*/61 0 * * *":      "is more than 60",
		"0 0 30 2 *":          "has no tick: write a day that its month has",
		"0 0 30-31 Feb ?":     "has no tick",
		"0 0 31 4,6,9,11 *":   "has no tick",
		"0 0 30 2 1":          "has no tick",
		"TZ=UTC 0 0 * * *":    "names a zone: write it as timezone",
		"CRON_TZ=Mars * * *":  "names a zone",
		"@every 59s":          "write at least @every 1m",
		"@every -5m":          "write at least @every 1m",
		"@every Xm":           "is not a cron line",
		"@every":              "is not a cron line",
		"@reboot":             "is not a cron line",
		"@every 5m 0 * * * *": "is not a cron line",
	} {
		if _, err := jobs.ParseSchedule(spec, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", spec, err, want)
		}
	}
	for _, spec := range []string{"0 6 31 12 *", "0 6 1 1 *", "0 0 29 2 *", "0 0 31 4,5 *", "30 08 ? Jul Sun",
		"5/15 * * * *", "0 0 * * Mon/2", "0 0 1,15 * Sun", "@midnight", "@every 1h30m"} {
		if _, err := jobs.ParseSchedule(spec, time.UTC); err != nil {
			t.Error(err)
		}
	}
}

// TestScheduleFollowsTheClock lists ticks between two times, in local time:
// times that the clock skips have no tick, and those that it repeats have two.
func TestScheduleFollowsTheClock(t *testing.T) {
	for _, c := range []struct{ zone, spec, from, to, want string }{
		{"UTC", "20-35/15 * * * *", "2012-07-09T15:45", "2012-07-09T17:00", "09T16:20+0 09T16:35+0"},
		{"UTC", "0 0 29 Feb ?", "2012-07-09T23:35", "2021-01-01T00:00", "29T00:00+0 29T00:00+0"},
		{"UTC", "0 0 1,15 * Sun", "2012-07-01T00:01", "2012-07-16T00:00", "08T00:00+0 15T00:00+0"},
		{"Asia/Beirut", "0 12 29 3 *", "2026-03-01T00:00", "2027-04-01T00:00", "29T12:00+3 29T12:00+3"},
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00", "2026-03-31T00:00", "28T02:30+1 30T02:30+2"}, // forward
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T00:00", "2026-10-27T00:00", // back
			"24T02:30+2 25T02:30+2 25T02:30+1 26T02:30+1"},
	} {
		z := zone(t, c.zone)
		s, err := jobs.ParseSchedule(c.spec, z)
		if err != nil {
			t.Fatal(err)
		}
		parse := func(s string) time.Time {
			parsed, err := time.ParseInLocation("2006-01-02T15:04", s, z)
			if err != nil {
				t.Fatal(err)
			}
			return parsed
		}
		var got []string
		for tick := s.Next(parse(c.from).Add(-1)); tick.Before(parse(c.to)); tick = s.Next(tick) {
			_, offset := tick.In(z).Zone()
			got = append(got, fmt.Sprintf("%s%+d", tick.In(z).Format("02T15:04"), offset/3600))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s in %s from %s: %s; want %s", c.spec, c.zone, c.from, got, c.want)
		}
	}
}

// TestScheduleIsEveryMinuteThatMatches compares the ticks around every clock
// change of many zones in 2026 with a check of every minute.
func TestScheduleIsEveryMinuteThatMatches(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every minute of years, one after the other")
	}
	matches := map[string]func(time.Time) bool{
		"0 0 * * *":    func(t time.Time) bool { return t.Hour() == 0 && t.Minute() == 0 },
		"*/20 * * * *": func(t time.Time) bool { return t.Minute()%20 == 0 },
		"15 1,3 * * *": func(t time.Time) bool { return t.Minute() == 15 && (t.Hour() == 1 || t.Hour() == 3) },
		"45 */6 * * *": func(t time.Time) bool { return t.Minute() == 45 && t.Hour()%6 == 0 },
		"30 0-3 * * 0": func(t time.Time) bool {
			return t.Minute() == 30 && t.Hour() <= 3 &&
				t.Weekday() == time.Sunday
		},
		"0 12 24-31 * *": func(t time.Time) bool { return t.Minute() == 0 && t.Hour() == 12 && t.Day() >= 24 },
		"30 23 5 * 6": func(t time.Time) bool {
			return t.Minute() == 30 && t.Hour() == 23 && (t.Day() == 5 || t.Weekday() == time.Saturday)
		},
	}
	changes := 0
	for _, name := range changing {
		z := zone(t, name)
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, z); at.Year() == 2026; {
			_, at = at.ZoneBounds()
			changes++
			from, to := at.Add(-50*time.Hour), at.Add(50*time.Hour)
			for spec, match := range matches {
				s, err := jobs.ParseSchedule(spec, z)
				if err != nil {
					t.Fatal(err)
				}
				var want []time.Time
				for minute := from; minute.Before(to); minute = minute.Add(time.Minute) {
					if match(minute) {
						want = append(want, minute.UTC())
					}
				}
				for start := from; start.Before(to); start = start.Add(11 * time.Minute) {
					i, _ := slices.BinarySearchFunc(want, start.Add(1), time.Time.Compare)
					if got := s.Next(start); i < len(want) && !got.Equal(want[i]) {
						t.Fatalf("%s in %s after %s: %s; want %s", spec, name, start, got.In(z), want[i].In(z))
					}
				}
			}
		}
	}
	if changes < 2*len(changing) {
		t.Errorf("%d changes of %d clocks; want two a year each", changes, len(changing))
	}
}

// TestTickAndNextAgree: Tick and Next enclose a time, and Tick of a tick is the
// tick itself.
func TestTickAndNextAgree(t *testing.T) {
	field := func(low, high int) *rapid.Generator[string] {
		n := rapid.IntRange(low, high)
		return rapid.OneOf(rapid.Just("*"), rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(n.Draw(t, "n")) }),
			rapid.Custom(func(t *rapid.T) string {
				return fmt.Sprintf("*/%d", rapid.IntRange(1, min(30, high-low+1)).Draw(t, "step"))
			}),
			rapid.Custom(func(t *rapid.T) string {
				from := n.Draw(t, "from")
				return fmt.Sprintf("%d-%d,%d", from, rapid.IntRange(from, high).Draw(t, "to"), n.Draw(t, "also"))
			}))
	}
	line := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join([]string{field(0, 59).Draw(t, "minute"), field(0, 23).Draw(t, "hour"),
				field(1, 31).Draw(t, "day"), field(1, 12).Draw(t, "month"), field(0, 6).Draw(t, "weekday")}, " ")
		}),
		rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("@every %ds",
				rapid.IntRange(60, 500_000).Draw(t, "s"))
		}))
	rapid.Check(t, func(t *rapid.T) {
		spec := line.Draw(t, "spec")
		s, err := jobs.ParseSchedule(spec, zone(t, rapid.SampledFrom(append(changing, "UTC")).Draw(t, "zone")))
		if err != nil {
			if !strings.Contains(err.Error(), "has no tick") {
				t.Fatal(err)
			}
			return
		}
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "now"),
			rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		tick, next := s.Tick(now), s.Next(now)
		if tick.IsZero() || tick.After(now) || !next.After(now) {
			t.Fatalf("%s at %s: tick %s, next %s", spec, now, tick, next)
		}
		if !s.Tick(next).Equal(next) || !s.Tick(tick).Equal(tick) || !s.Next(tick).Equal(next) ||
			!s.Tick(next.Add(-1)).Equal(tick) {
			t.Fatalf("%s at %s: tick %s and next %s do not agree", spec, now, tick, next)
		}
	})
}

// TestZeroScheduleHasNoTicks: its methods do not panic.
func TestZeroScheduleHasNoTicks(t *testing.T) {
	var s jobs.Schedule
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if s.String() != "" || s.Zone() != time.UTC || !s.Next(now).IsZero() || !s.Tick(now).IsZero() {
		t.Errorf("%q in %s, next %s, tick %s; want a schedule in UTC without ticks", s, s.Zone(), s.Next(now),
			s.Tick(now))
	}
}

func TestNilZoneIsUTC(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	for _, spec := range []string{"0 */6 * * *", "@every 6h", "@daily"} {
		s, err := jobs.ParseSchedule(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		utc, err := jobs.ParseSchedule(spec, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if s.Zone() != time.UTC || !s.Next(now).Equal(utc.Next(now)) || !s.Tick(now).Equal(utc.Tick(now)) {
			t.Errorf("%s: in %s, next %s, tick %s; want as in UTC: %s, %s", spec, s.Zone(), s.Next(now), s.Tick(now),
				utc.Next(now), utc.Tick(now))
		}
	}
	berlin := zone(t, "Europe/Berlin")
	if s, err := jobs.ParseSchedule("@daily", berlin); err != nil || s.Zone() != berlin {
		t.Errorf("%s, %v; want Europe/Berlin", s.Zone(), err)
	}
}
