package plan_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func open(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }

// prices are those of YouTube.
func prices(method string) (quota.Call, error) {
	units := quota.Units(1)
	if method == "search.list" {
		units = 100
	}
	return quota.Call{Account: "my-project", Method: method, Units: units}, nil
}

func parse(t testing.TB, yaml string) []jobs.Region {
	t.Helper()
	config, err := jobs.Parse("regions.yaml", []byte("version: 1\n"+yaml), nil)
	if err != nil {
		t.Fatal(err)
	}
	return config.Regions
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func play(t testing.TB, in *plan.Input) *plan.Report {
	t.Helper()
	if in.Price == nil {
		in.Price = prices
	}
	in.Open = open
	report, err := plan.Play(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestTheShippedScheduleFits checks that the schedule and budgets of this
// repository fit, with room for days of 25 hours.
func TestTheShippedScheduleFits(t *testing.T) {
	table, err := costs.Parse("costs.yaml", shipped(t, "../../costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := jobs.Parse("regions.yaml", shipped(t, "../../regions.yaml"), table.CheckFetched)
	if err != nil {
		t.Fatal(err)
	}
	from := at(t, "2026-10-31T00:00:00Z")
	report := play(t, &plan.Input{Regions: config.Regions, Budgets: table.Budgets(), From: from,
		To: from.AddDate(0, 0, 3), Jitter: 5 * time.Minute,
		Price: func(method string) (quota.Call, error) { return table.Call("", method) }})
	var got strings.Builder
	fmt.Fprintln(&got, report.Fits, report.Ticks, report.Calls, report.Units, report.Least, report.AtWorst)
	for _, b := range report.Budgets {
		fmt.Fprintln(&got, b.Budget.Name, b.Peak, b.PeakAt.Format("02T15:04"), b.PeakLate, b.Unused, b.Refused, b.Over)
	}
	// A pass is 4 + 100 + 10 + 1 units; a start that is late may stand beside
	// the next day's at the same hour.
	want := `true 96 1536 11040 9792 [trending channels]
youtube 3680 31T18:49 3795 5705 0 false
youtube-day 3680 01T06:49 3680 5820 0 false
youtube-search 3200 31T18:49 3300 700 0 false
youtube-search-burst 200 31T00:07 300 1200 0 false
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}

// TestPeaksAreRightOnDaysOf23And25Hours: such days in the zones of the budget
// and of the schedule.
func TestPeaksAreRightOnDaysOf23And25Hours(t *testing.T) {
	pacific, hourly := zone(t, "America/Los_Angeles"), "schedule: 30 * * * *\nfetch: [categories]\nregions: {US: {}}\n"
	day := quota.Budget{Account: "my-project", Name: "day", Limit: 100, Window: quota.Daily(pacific)}
	month := quota.Budget{Account: "my-project", Name: "month", Limit: 1000, Window: quota.Monthly(pacific)}
	sliding := quota.Budget{Account: "my-project", Name: "sliding", Limit: 100, Window: quota.Sliding(24 * time.Hour)}
	for name, c := range map[string]struct {
		regions    string
		budget     quota.Budget
		from       string
		days       int
		jitter     time.Duration
		ticks      int
		peak, late quota.Units
	}{
		"a day of 25 hours": {hourly, day, "2026-10-31T12:00:00Z", 3, 0, 72, 25, 25},
		"a day of 23 hours": {hourly, day, "2027-03-14T08:00:00Z", 1, 0, 24, 23, 23},
		"late into the day": {hourly, day, "2026-10-31T12:00:00Z", 3, 30 * time.Minute, 72, 25, 26},
		"not quite":         {hourly, day, "2026-10-31T12:00:00Z", 3, 29*time.Minute + 29*time.Second, 72, 25, 25},
		"into the margin":   {hourly, day, "2026-10-31T12:00:00Z", 3, 29*time.Minute + 30*time.Second, 72, 25, 26},
		"on the boundary": {"schedule: 0 * * * *\nfetch: [categories]\nregions: {US: {}}\n", day,
			"2026-10-31T12:00:00Z", 3, 0, 72, 26, 26},
		"a trailing day": {hourly, sliding, "2026-10-31T12:00:00Z", 3, 0, 72, 24, 24},
		"and late":       {hourly, sliding, "2026-10-31T12:00:00Z", 3, 5 * time.Minute, 72, 24, 25},
		"a month":        {hourly, month, "2026-10-20T07:00:00Z", 44, 0, 44 * 24, 30*24 + 1, 30*24 + 1},
		"a time that is twice": {"timezone: America/New_York\nschedule: 30 1 * * *\nfetch: [categories]\nregions: " +
			"{US: {}}\n", day, "2026-11-01T04:00:00Z", 1, 0, 2, 2, 2},
		"a time that is not": {"timezone: America/New_York\nschedule: 30 2 * * *\nfetch: [categories]\nregions: " +
			"{US: {}}\n", day, "2027-03-14T05:00:00Z", 1, 0, 0, 0, 0},
		"counted from no clock": {"timezone: America/New_York\nschedule: '@every 7h'\nfetch: [categories]\nregions: " +
			"{US: {}}\n", sliding, "2026-11-01T04:00:00Z", 7, 0, 24, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			from := at(t, c.from)
			report := play(t, &plan.Input{Regions: parse(t, c.regions), Budgets: []quota.Budget{c.budget}, From: from,
				To: from.AddDate(0, 0, c.days), Jitter: c.jitter})
			b := report.Budgets[0]
			if report.Ticks != c.ticks || b.Peak != c.peak || b.PeakLate != c.late || !report.Fits {
				t.Errorf("%d ticks, peak %d, late %d; want %d, %d, %d", report.Ticks, b.Peak, b.PeakLate, c.ticks,
					c.peak, c.late)
			}
		})
	}
}

// planStartsFromTheLedgersStateCases are the cases of
// TestPlanStartsFromTheLedgersState.
var planStartsFromTheLedgersStateCases = []quota.Budget{
	{Account: "my-project", Name: "units", Limit: 100, Window: quota.Sliding(24 * time.Hour)},
	{Account: "my-project", Name: "calls", Limit: 10, Window: quota.Sliding(24 * time.Hour), Measure: quota.Calls},
	{Account: "my-project", Name: "month", Limit: 1000, Window: quota.Monthly(time.UTC)},
	{Account: "other", Name: "other", Limit: 50, Window: quota.Sliding(24 * time.Hour)},
}

// TestPlanStartsFromTheLedgersState: the state includes adjustments, calls of
// other regions, entries that only a monthly window covers, and cooldowns.
func TestPlanStartsFromTheLedgersState(t *testing.T) {
	from := at(t, "2026-11-20T12:00:00Z")
	entry := func(ago time.Duration, units, calls quota.Units, region string) quota.Entry {
		return quota.Entry{At: from.Add(-ago), Method: "videoCategories.list", Units: units, Calls: calls,
			Caller: quota.Caller{Region: region}}
	}
	in := &plan.Input{From: from, To: from.AddDate(0, 0, 1),
		Regions: parse(t, "schedule: '@every 6h'\nfetch: [categories]\nregions: {US: {}, IN: {}}\n")}
	in.Budgets = planStartsFromTheLedgersStateCases
	in.State = stateOf(entry(450*time.Hour, 200, 1, "US"), entry(3*time.Hour, 40, 0, "-"),
		entry(2*time.Hour, 7, 1, "US"))
	// more than the limit, of an account that nothing is scheduled on
	in.State.Add("other", new(entry(time.Hour, 60, 1, "US")))
	var got strings.Builder
	for _, cool := range []bool{false, true} {
		if cool {
			in.State.Cooldowns = []quota.Cooldown{{Account: "my-project", Budget: "calls",
				Until: from.Add(6 * time.Hour)}}
		}
		report := play(t, in)
		fmt.Fprintln(&got, report.Fits)
		for _, b := range report.Budgets {
			fmt.Fprintln(&got, b.Budget.Name, b.Touched, b.Peak, b.PeakLate, b.Refused)
		}
		for _, r := range report.Regions {
			fmt.Fprintln(&got, r.Region, r.Planned, r.Refused, r.Units, r.RefusedUnits)
		}
		for _, played := range report.TickResults[:2] {
			fmt.Fprintln(&got, played.At.Format("15:04"), played.Region, played.Calls, played.Refused)
		}
	}
	// The region that was never fetched is first. A cooldown ends exactly
	// on time.
	want := `true
units true 55 55 0
calls true 9 9 0
month true 255 255 0
other false 60 60 0
US 4 0 4 0
IN 4 0 4 0
12:00 IN 1 0
12:00 US 1 0
false
units true 55 55 0
calls true 9 9 2
month true 255 255 0
other false 60 60 0
US 4 1 4 1
IN 4 1 4 1
12:00 IN 0 1
12:00 US 0 1
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}

// TestPlayRefusesTooManyCalls: the error comes before any call is played.
func TestPlayRefusesTooManyCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("plays half a million calls")
	}
	from := at(t, "2026-11-20T12:00:00Z")
	_, err := plan.Play(t.Context(),
		&plan.Input{Regions: parse(t, "schedule: '* * * * *'\nfetch: [trending]\nregions: {US: {}}\n"), Price: prices,
			Open: open, From: from, To: from.AddDate(1, 0, 0)})
	if !errors.Is(err, plan.ErrTooLong) {
		t.Errorf("got %v; want that it is too long", err)
	}
}

// BenchmarkMonth plays 30 days of eight regions every 15 minutes.
func BenchmarkMonth(b *testing.B) {
	regions := parse(b,
		"schedule: '*/15 * * * *'\nfetch: [trending, {search: {queries: [music]}}, channels, categories]\nregions: "+
			"{US: {}, GB: {}, DE: {}, FR: {}, IN: {}, BR: {}, AU: {}, CA: {}}\n")
	from := at(b, "2026-10-15T00:00:00Z")
	in := &plan.Input{Regions: regions, From: from, To: from.AddDate(0, 0, 30), Jitter: 5 * time.Minute,
		Budgets: []quota.Budget{
			{Account: "my-project", Name: "day", Limit: 200_000, Window: quota.Sliding(24 * time.Hour)},
			{Account: "my-project", Name: "calendar", Limit: 200_000,
				Window: quota.Daily(zone(b, "America/Los_Angeles"))},
			{Account: "my-project", Name: "search", Limit: 200_000, Window: quota.Sliding(24 * time.Hour),
				Methods: []string{"search.list"}, Floor: map[string]quota.Units{"IN": 500}},
		}}
	for b.Loop() {
		if report := play(b, in); report.Calls != 30*8*96*16 || !report.Fits {
			b.Fatal(report.Calls, report.Fits)
		}
	}
}

// shipped reads a file of the repository, which may be group-writable in
// a checkout.
func shipped(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestColumnsAddUpToWhatAWindowHolds checks a picture's columns, half an hour
// apart, by region and with what the ledger held.
func TestColumnsAddUpToWhatAWindowHolds(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	for name, c := range map[string]struct {
		window quota.Window
		want   string
	}{
		"sliding": {quota.Sliding(2 * time.Hour), "8=0+0+8 11=3+0+8 11=3+0+8 13=3+2+8 5=3+2+0 2=0+2+0 2=0+2+0 2=0+2+0"},
		"day":     {quota.Daily(time.UTC), "8=0+0+8 11=3+0+8 11=3+0+8 13=3+2+8 13=3+2+8 13=3+2+8 13=3+2+8 13=3+2+8"},
	} {
		t.Run(name, func(t *testing.T) {
			report := play(t, &plan.Input{From: from, To: from.Add(4 * time.Hour),
				State: held(from.Add(-10*time.Minute), 8),
				Regions: parse(t,
					"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 3}}]\nregions: {US: {}, IN: {schedule: '15 2 "+
						"* * *', fetch: [{trending: {pages: 2}}]}}\n"),
				Budgets: []quota.Budget{{Account: "my-project", Name: "all", Limit: 50, Window: c.window}}})
			var got []string
			for _, column := range report.Columns(0, 8) {
				got = append(got, fmt.Sprintf("%d=%d+%d+%d", column.Total, column.Regions[0], column.Regions[1],
					column.Held))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestAnEntryLeavesToTheMicrosecond: what was spent an hour ago has left an
// hour's window, and what was spent a microsecond later has not.
func TestAnEntryLeavesToTheMicrosecond(t *testing.T) {
	from, tick := at(t, "2026-11-20T00:30:00Z"), at(t, "2026-11-20T01:00:00Z")
	for later, peak := range map[time.Duration]quota.Units{0: 8, time.Microsecond: 11} {
		report := play(t, &plan.Input{From: from, To: from.Add(time.Hour), State: held(tick.Add(later-time.Hour), 8),
			Regions: parse(t, "schedule: '0 1 * * *'\nfetch: [{trending: {pages: 3}}]\nregions: {US: {}}\n"),
			Budgets: []quota.Budget{{Account: "my-project", Name: "all", Limit: 50, Window: quota.Sliding(time.Hour)}}})
		if b := report.Budgets[0]; b.Peak != peak || b.PeakLate != peak {
			t.Errorf("an entry %s after the window's edge: peak %d, or %d if late; want %d", later, b.Peak, b.PeakLate,
				peak)
		}
	}
}

// TestEntriesAreReplayedAsTheyCount: a note may stand for many calls, and a
// refunded call for none.
func TestEntriesAreReplayedAsTheyCount(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	for name, c := range map[string]struct {
		entry   quota.Entry
		limit   quota.Units
		refused int
	}{
		"a note of many calls": {quota.Entry{Kind: quota.EntryNote, Calls: 50}, 52, 1},
		"a call":               {quota.Entry{Units: 40, Calls: 1}, 3, 1},
		"a call that was none": {quota.Entry{Units: 40}, 3, 0},
	} {
		c.entry.At, c.entry.Method = from.Add(-time.Minute), "videos.list"
		report := play(t, &plan.Input{From: from, To: from.Add(time.Hour), State: stateOf(c.entry),
			Regions: parse(t, "schedule: '0 1 * * *'\nfetch: [{trending: {pages: 3}}]\nregions: {US: {}}\n"),
			Budgets: []quota.Budget{{Account: "my-project", Name: "calls", Limit: c.limit,
				Window: quota.Sliding(24 * time.Hour), Measure: quota.Calls}}})
		if got := report.Budgets[0].Refused; got != c.refused {
			t.Errorf("%s: %d refused; want %d", name, got, c.refused)
		}
	}
}
