package costs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestWindowsAreWrittenAsTheyAreRead: what String writes is the same window
// when it is read, and a guard accepts it.
func TestWindowsAreWrittenAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]quota.Window{
		"window: 24h": quota.Sliding(24 * time.Hour),
		"window: 10s": quota.Sliding(10 * time.Second).WithMargin(
			500 * time.Millisecond),
		"window: 100ms": quota.Sliding(100 * time.Millisecond).WithMargin(
			20 * time.Millisecond),
		"window: {sliding: 50s}":                           quota.Sliding(50 * time.Second).WithMargin(time.Second),
		"window: {sliding: 1m}":                            quota.Sliding(time.Minute),
		"window: {sliding: 1s, margin: 0}":                 quota.Sliding(time.Second),
		"window: {every: 15m}":                             quota.Every(15 * time.Minute),
		"window: {hour: Asia/Kolkata}":                     quota.Hourly(kolkata(t)),
		"window: {week: UTC}":                              quota.Weekly(time.UTC, time.Monday),
		"window: {week: UTC, from: sunday, at: \"06:00\"}": quota.Weekly(time.UTC, time.Sunday).At(6 * time.Hour),
		"window: {month: UTC, from: 12}":                   quota.Monthly(time.UTC).From(12),
		"window: {bucket: {restore: 50/s}}": quota.Bucket(50,
			time.Second).WithMargin(20 * time.Millisecond),
		"window: {bucket: {restore: 1/60s}}": quota.Bucket(1,
			time.Minute).WithMargin(100 * time.Millisecond),
		"window: {bucket: {restore: 1, every: 60s}}": quota.Bucket(1,
			time.Minute).WithMargin(100 * time.Millisecond),
		"window: {bucket: {restore: 0.0167/s}}": quota.Bucket(1,
			59_880_240*time.Microsecond).WithMargin(100 * time.Millisecond),
		"window: {bucket: {restore: 2.5/m}, margin: 1s}":     quota.Bucket(1, 24*time.Second).WithMargin(time.Second),
		"window: {bucket: {restore: 1000.001/h}, margin: 0}": quota.Bucket(1, 3_599_997*time.Microsecond),
		"window: {in_flight: 30s}":                           quota.InFlight(30 * time.Second),
		"in_flight: true":                                    quota.InFlight(2 * time.Minute),
		"{in_flight: true, lease: 5m}":                       quota.InFlight(5 * time.Minute),
	} {
		parse := func(text string) quota.Budget {
			text = strings.Trim(text, "{}"[:2*strings.Count(text[:1], "{")])
			table := use(t, "costs: {get: 1}\nbudgets: [{name: all, limit: 10, "+text+"}]")
			if _, err := quota.NewGuard(memledger.Open(nil), table.Budgets(), nil); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			return table.Budgets()[0]
		}
		got := parse(text)
		isInFlight := want.Kind() == engine.InFlight
		if got.Window.String() != want.String() || (got.Measure == quota.Calls) != isInFlight {
			t.Errorf("%s is %s of %s; want %s", text, got.Window, got.Measure, want)
		}
		if again := parse("window: " + got.Window.String()); again.Window.String() != want.String() ||
			!again.Window.IsLike(want) {
			t.Errorf("%s is written %s, which is %s", text, got.Window, again.Window)
		}
	}
}

func kolkata(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestMarginsOfStepsAreAQuarterAtMost, whatever reset_margin is.
func TestMarginsOfStepsAreAQuarterAtMost(t *testing.T) {
	for margin, want := range map[string]time.Duration{"": 30 * time.Second, "reset_margin: 10s\n": 10 * time.Second,
		"reset_margin: 1h\n": 3*time.Minute + 45*time.Second} {
		table := use(t, margin+"costs: {get: 1}\nbudgets: [{name: all, limit: 10, window: {every: 15m}}]")
		if got := table.Budgets()[0].Window.Margin(); got != want {
			t.Errorf("%q: a margin of %s; want %s", margin, got, want)
		}
	}
}

func TestMistakesInWindowsSayWhatToWrite(t *testing.T) {
	mistaken(t, "version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 10, ", map[string]string{
		"window: {every: 7m}": "4:50: a day has no whole number of steps of 7m: write " +
			"one such as 15m, 1h or 6h",
		"window: {every: 15m, at: \"06:00\"}": `4:42: only days, weeks and months begin at a time of ` +
			`day: remove at, or write {day: America/Los_Angeles, at: "06:00"}`,
		"window: {month: UTC, from: 31}": "4:61: from is 31: write an integer from 1 to 28",
		"window: {week: UTC, from: sun}": `4:60: unknown day of the week "sun": write one of ` +
			`sunday, monday, tuesday, wednesday, thursday, friday, saturday`,
		"window: {day: UTC, from: 2}": "4:59: from is the day on which a week or a month " +
			"begins: write {week: UTC, from: sunday} or {month: UTC, from: 12}, or remove it",
		"window: {bucket: {restore: 50}}": "4:61: restore is without a time: write a rate such as " +
			"50/s, 1/60s or 0.0167/s",
		"window: {bucket: {restore: 50 a second}}": `4:61: "50 a second" is not how fast a bucket refills: ` +
			`write a rate such as 50/s, 1/60s or 0.0167/s`,
		"window: {bucket: {restore: 0/s}}": `4:61: "0/s" is not how fast a bucket refills: write a ` +
			`rate such as 50/s, 1/60s or 0.0167/s`,
		"window: {bucket: {rate: 50/s}}": `4:52: unknown key "rate": write one of restore, every`,
		"window: {bucket: 50/s}":         `4:51: bucket is "50/s": write a map, {restore: …}`,
		"window: {bucket: {restore: 1/30d}}": `4:11: bucket "all" of 10 refills by 1/720h: let it ` +
			`refill within 100 days`,
		"window: {bucket: {restore: 1/s}}, floor: {IN: 5}": "4:75: a floor in window {bucket: {restore: 1/s}}: " +
			"write a window such as 24h or {day: America/Los_Angeles}, or remove the floor",
		"window: {in_flight: 25h}": `4:54: in_flight is "25h": write a duration from 1s to ` +
			`24h, such as 24h, 10m or 30s`,
		"in_flight: 10": "4:45: \"10\" is not a switch: write true or false",
		"in_flight: true, window: 24h": "4:45: in_flight beside a window: remove one, or write " +
			"two budgets",
		"window: 24h, lease: 2m": "4:54: lease is for budgets of calls in flight: write " +
			"in_flight: true in place of the window, or remove it",
		"shadow: true": `4:11: missing key "window": write window: 24h, {day: ` +
			`America/Los_Angeles}, {bucket: {restore: 50/s}}, or in_flight: true`,
	}, "}]")
}

// TestABudgetInFlightIsOverridden like any other.
func TestABudgetInFlightIsOverridden(t *testing.T) {
	const preset = "preset: youtube/legacy\nbudgets: [{name: youtube-day, "
	u := use(t, preset+"in_flight: true, limit: 5}]").Upstreams()[0]
	if b := u.Budgets[0]; b.Window != quota.InFlight(2*time.Minute) || b.Measure != quota.Calls {
		t.Errorf("it is %+v", b)
	}
	mistaken(t, "version: 1\naccount: a\n"+preset, map[string]string{"in_flight: true": "write the limit as well"},
		"}]")
}
