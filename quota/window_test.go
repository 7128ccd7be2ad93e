package quota_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, on machines that have none

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestCalendarWindowsFollowTheirZone checks windows on the days on which their
// zones' clocks change, in months of every length, and in zones with offsets
// that are not whole hours or with days without a midnight.
func TestCalendarWindowsFollowTheirZone(t *testing.T) {
	at := func(s string) time.Time {
		parsed, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	day, month := quota.Daily, quota.Monthly
	monday := func(zone *time.Location) quota.Window { return quota.Weekly(zone, time.Monday) }
	sunday := func(zone *time.Location) quota.Window { return quota.Weekly(zone, time.Sunday) }
	twelfth := func(zone *time.Location) quota.Window { return quota.Monthly(zone).From(12) }
	quarter := func(*time.Location) quota.Window { return quota.Every(15 * time.Minute) }
	for _, c := range []struct {
		name, zone   string
		window       func(*time.Location) quota.Window
		timeOfDay    time.Duration
		now          string
		begins, ends string // the boundaries of the window that holds now, without margins
	}{
		{"a plain day", "America/Los_Angeles", day, 0, "2026-11-20T12:00:00Z", "2026-11-20T08:00:00Z",
			"2026-11-21T08:00:00Z"},
		{"a day of 25 hours", "America/Los_Angeles", day, 0, "2026-11-02T07:59:59Z", "2026-11-01T07:00:00Z",
			"2026-11-02T08:00:00Z"},
		{"a day of 23 hours", "America/Los_Angeles", day, 0, "2027-03-14T12:00:00Z", "2027-03-14T08:00:00Z",
			"2027-03-15T07:00:00Z"},
		{"a leap day", "UTC", day, 0, "2028-02-29T23:59:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a quarter of an hour", "Asia/Kathmandu", day, 0, "2026-11-20T12:00:00Z", "2026-11-19T18:15:00Z",
			"2026-11-20T18:15:00Z"},
		{"half an hour set back", "Australia/Lord_Howe", day, 0, "2027-04-03T20:00:00Z", "2027-04-03T13:00:00Z",
			"2027-04-04T13:30:00Z"},
		{"midnight skipped", "Africa/Cairo", day, 0, "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z",
			"2026-04-24T21:00:00Z"},
		{"midnight shown twice", "America/Havana", day, 0, "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z",
			"2026-11-02T05:00:00Z"},
		{"23:00 shown twice", "America/Santiago", day, 0, "2027-04-04T02:30:00Z", "2027-04-03T03:00:00Z",
			"2027-04-04T04:00:00Z"},
		{"a day that was never", "Pacific/Apia", day, 0, "2011-12-30T11:00:00Z", "2011-12-30T10:00:00Z",
			"2011-12-31T10:00:00Z"},
		{"at nine", "Europe/Berlin", day, 9 * time.Hour, "2026-11-20T07:59:00Z", "2026-11-19T08:00:00Z",
			"2026-11-20T08:00:00Z"},
		{"at half past two, which is skipped", "Europe/Berlin", day, 150 * time.Minute, "2027-03-28T12:00:00Z",
			"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"},
		{"at half past two, shown twice", "Europe/Berlin", day, 150 * time.Minute, "2026-10-25T12:00:00Z",
			"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"a month", "UTC", month, 0, "2026-11-20T12:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"its last day, east of UTC", "Asia/Tokyo", month, 0, "2026-12-31T14:59:00Z", "2026-11-30T15:00:00Z",
			"2026-12-31T15:00:00Z"},
		{"February of a leap year", "America/Los_Angeles", month, 0, "2028-02-15T00:00:00Z", "2028-02-01T08:00:00Z",
			"2028-03-01T08:00:00Z"},
		{"a week", "America/Los_Angeles", monday, 0, "2026-11-22T12:00:00Z", "2026-11-16T08:00:00Z",
			"2026-11-23T08:00:00Z"},
		{"a week with a clock set", "America/Los_Angeles", sunday, 0, "2026-11-03T12:00:00Z", "2026-11-01T07:00:00Z",
			"2026-11-08T08:00:00Z"},
		{"a month from the twelfth", "UTC", twelfth, 0, "2026-11-11T23:00:00Z", "2026-10-12T00:00:00Z",
			"2026-11-12T00:00:00Z"},
		{"an hour", "Asia/Kathmandu", quota.Hourly, 0, "2026-11-20T12:20:00Z", "2026-11-20T12:15:00Z",
			"2026-11-20T13:15:00Z"},
		{"an hour that is shown twice", "Europe/Berlin", quota.Hourly, 0, "2026-10-25T01:30:00Z",
			"2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		{"a quarter of an hour, always", "UTC", quarter, 0, "2026-11-20T12:20:00Z", "2026-11-20T12:15:00Z",
			"2026-11-20T12:30:00Z"},
		{"a month with a clock set", "America/Los_Angeles", month, 0, "2026-11-30T12:00:00Z", "2026-11-01T07:00:00Z",
			"2026-12-01T08:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			checkDay(t, c.window(zone).At(c.timeOfDay), at(c.now), at(c.begins), at(c.ends))
		})
	}
}

// checkDay checks the day of a window, whose boundaries are given, and the
// next.
func checkDay(t *testing.T, w quota.Window, now, begins, ends time.Time) {
	t.Helper()
	margin := time.Minute
	w = w.WithMargin(margin)
	got := w.Day(now)
	want := quota.Day{Start: begins.Add(margin), Since: begins.Add(-margin), Opens: ends.Add(margin),
		Next: ends.Add(-margin), Reopens: got.Reopens}
	if got != want {
		t.Errorf("%s at %s:\ngot  %+v\nwant %+v", w, now, got, want)
	}
	for _, edge := range []time.Time{got.Start, got.Opens.Add(-1)} {
		if same := w.Day(edge); same != got {
			t.Errorf("at %s the window is %+v; want the same, %+v", edge, same, got)
		}
	}
	if next := w.Day(got.Opens); !next.Start.Equal(got.Opens) || !next.Opens.Equal(got.Reopens) ||
		!next.Since.Equal(got.Next) {
		t.Errorf("the next window is %+v; want it to follow %+v", next, got)
	}
	if length := got.Opens.Sub(got.Since); length > w.Horizon(0) {
		t.Errorf("it counts %s, beyond its horizon %s", length, w.Horizon(0))
	}
}

// TestDaysBeginAtWholeMinutes: a window begins at a whole minute of the day.
func TestDaysBeginAtWholeMinutes(t *testing.T) {
	for at, ok := range map[time.Duration]bool{
		-time.Minute: false, 0: true, 30 * time.Second: false, 9*time.Hour + 30*time.Second: false,
		24*time.Hour - time.Minute: true, 24 * time.Hour: false, 25 * time.Hour: false,
	} {
		day := quota.Budget{Account: account, Name: "day", Limit: 1, Window: quota.Daily(time.UTC).At(at)}
		_, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{day}, nil)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "whole minutes") {
			t.Errorf("a day that begins at %s: %v", at, err)
		}
	}
}

// TestHorizonIncludesBothMargins: a margin is 0 to an hour, and a window's
// horizon includes it on both sides.
func TestHorizonIncludesBothMargins(t *testing.T) {
	for margin, ok := range map[time.Duration]bool{
		-time.Microsecond: false, 0: true, time.Microsecond: true, time.Hour: true, time.Hour + time.Microsecond: false,
		time.Nanosecond: false,
	} {
		for name, w := range map[string]quota.Window{"day": quota.Daily(time.UTC), "month": quota.Monthly(time.UTC)} {
			w = w.WithMargin(margin)
			_, err := quota.NewGuard(memledger.Open(nil),
				[]quota.Budget{{Account: account, Name: name, Limit: 1, Window: w}}, nil)
			if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "a margin of") {
				t.Errorf("a %s with a margin of %s: %v", name, margin, err)
			}
		}
	}
	const day, month = 25*time.Hour + 30*time.Minute, 31*24*time.Hour + 90*time.Minute
	for _, c := range []struct {
		window quota.Window
		want   time.Duration
	}{
		{quota.Daily(time.UTC), day + 2*quota.DefaultMargin},
		{quota.Daily(time.UTC).WithMargin(0), day},
		{quota.Daily(time.UTC).WithMargin(time.Hour), day + 2*time.Hour},
		{quota.Monthly(time.UTC), month + 2*quota.DefaultMargin},
		{quota.Monthly(time.UTC).WithMargin(time.Hour), month + 2*time.Hour},
		{quota.Sliding(time.Minute), time.Minute},
	} {
		if got := c.window.Horizon(0); got != c.want {
			t.Errorf("%s: a horizon of %s; want %s", c.window, got, c.want)
		}
	}
}

func TestWindowsAreWrittenAsInCostsYAML(t *testing.T) {
	for window, want := range map[quota.Window]string{
		{}: "none", quota.Sliding(24 * time.Hour): "24h", quota.Sliding(90 * time.Second): "1m30s",
		quota.Sliding(10 * time.Minute): "10m",
		quota.Daily(time.UTC):           "{day: UTC}", quota.Monthly(time.UTC): "{month: UTC}",
		quota.Daily(time.UTC).At(6*time.Hour + 5*time.Minute): `{day: UTC, at: "06:05"}`,
		quota.Monthly(time.UTC).From(12):                      "{month: UTC, from: 12}",
		quota.Weekly(time.UTC, time.Sunday):                   "{week: UTC, from: sunday}",
		quota.Every(15 * time.Minute):                         "{every: 15m}", quota.Hourly(time.UTC): "{hour: UTC}",
		quota.InFlight(2 * time.Minute):                                 "{in_flight: 2m}",
		quota.Bucket(50, time.Second).WithMargin(20 * time.Millisecond): "{bucket: {restore: 50/s}}",
		quota.Bucket(1, 90*time.Second):                                 "{bucket: {restore: 1/1m30s}, margin: 0s}",
		quota.Sliding(time.Second):                                      "{sliding: 1s, margin: 0s}",
		quota.Sliding(time.Second).WithMargin(50 * time.Millisecond):    "1s",
	} {
		if got := window.String(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

// TestWindowsAreSaidInWords: the page showed {day: America/Los_Angeles}.
func TestWindowsAreSaidInWords(t *testing.T) {
	losAngeles, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for window, want := range map[quota.Window]string{
		quota.Sliding(24 * time.Hour): "24 hours, sliding", quota.Sliding(time.Minute): "1 minute, sliding",
		quota.Daily(losAngeles):                               "day in Los Angeles",
		quota.Daily(time.UTC).At(6*time.Hour + 5*time.Minute): "day in UTC from 06:05",
		quota.Monthly(time.UTC).From(12):                      "month in UTC from day 12",
		quota.Weekly(time.UTC, time.Sunday):                   "week in UTC from Sunday",
		quota.Every(15 * time.Minute):                         "steps of 15 minutes",
		quota.InFlight(2 * time.Minute):                       "in flight",
		quota.Bucket(50, time.Second):                         "refilled at 50/s",
	} {
		if got := window.Words(); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

// TestSinceIsTheEarliestTimeThatCounts: an entry of before it counts no more.
func TestSinceIsTheEarliestTimeThatCounts(t *testing.T) {
	at := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		window quota.Window
		want   time.Time
	}{
		{quota.Sliding(time.Hour), at.Add(-time.Hour + time.Microsecond)},
		{quota.Sliding(time.Hour).WithMargin(time.Second), at.Add(-time.Hour - time.Second + time.Microsecond)},
		{quota.Daily(time.UTC).WithMargin(time.Minute), at.Truncate(24 * time.Hour).Add(-time.Minute)},
	} {
		if got := c.window.Since(at, 0); !got.Equal(c.want) {
			t.Errorf("%s begins at %s; want %s", c.window, got, c.want)
		}
	}
}
