package plan

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
)

// TestALighterScheduleHasFewerTicks checks that each lighter schedule has fewer
// ticks than the one before, and a shifted one as many.
func TestALighterScheduleHasFewerTicks(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the ticks of years")
	}
	counts := specCounts{}
	for spec, c := range map[string]struct {
		first, last string // of the lighter ones
		shifts      int
	}{
		"* * * * *":             {"*/2 * * * *", "0 0 * * 1", 0},
		"*/15 * * * *":          {"*/20 * * * *", "0 0 * * 1", 14},
		"3-59/10 * * * *":       {"3-59/12 * * * *", "3 0 * * 1", 9},
		"7 */6 * * *":           {"7 */8 * * *", "7 0 * * 1", 59},
		"0 5-23/6 * * *":        {"0 5-23/8 * * *", "0 5 * * 1", 59},
		"0,10 9-17 * * 1-5":     {"0 9-17 * * 1-5", "0 9 * * 1-5", 0},
		"30 4,16,20 * * *":      {"30 4,20 * * *", "30 4 * * 1", 59},
		"0 9 1 * *":             {"", "", 59},
		"@hourly":               {"0 */2 * * *", "0 0 * * 1", 59},
		"@weekly":               {"", "", 59},
		"@every 5m":             {"@every 10m", "@every 168h", 0},
		"@every 90m":            {"@every 2h", "@every 168h", 0},
		"@every 1d":             {"@every 48h", "@every 168h", 0},
		"@every 400h":           {"", "", 0},
		"0 0 * jan,feb mon-fri": {"", "", 59},
	} {
		all, before := lighterSpecs(spec), counts.of(t, spec)
		first, last := "", ""
		if len(all) > 0 {
			first, last = all[0], all[len(all)-1]
		}
		if first != c.first || last != c.last {
			t.Errorf("%q: lighter from %q to %q; want %q to %q", spec, first, last, c.first, c.last)
		}
		for _, line := range all {
			if n := counts.of(t, line); n >= before {
				t.Errorf("%q: %q comes %d times, and what is before it %d", spec, line, n, before)
			} else {
				before = n
			}
		}
		shifts := shiftedSpecs(spec)
		if len(shifts) != c.shifts {
			t.Errorf("%q: %d shifts; want %d", spec, len(shifts), c.shifts)
		}
		for _, line := range shifts {
			if n := counts.of(t, line); n != counts.of(t, spec) {
				t.Errorf("%q: shifted to %q comes %d times", spec, line, n)
			}
		}
	}
}

// specCounts remembers how often each cron line comes in 35 days.
type specCounts map[string]int

func (counts specCounts) of(t *testing.T, spec string) (n int) {
	t.Helper()
	if n, known := counts[spec]; known {
		return n
	}
	defer func() { counts[spec] = n }()
	schedule, err := jobs.ParseSchedule(spec, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)
	for at := schedule.Next(from.Add(-1)); at.Before(from.AddDate(0, 0, 35)); at = schedule.Next(at) {
		n++
	}
	return n
}
