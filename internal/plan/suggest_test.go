package plan_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// drawFewer makes rapid draw fewer examples in a test, unless the command
// line or RAPID_CHECKS says how many or RATION_SOAK is set. The test must not
// be parallel.
func drawFewer(t *testing.T, checks string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue || os.Getenv("RAPID_CHECKS") != "" || os.Getenv("RATION_SOAK") != "" {
		return
	}
	if err := flag.Set(f.Name, checks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(f.Name, f.DefValue) })
}

// TestASuggestionFitsAndChangesNothingNeedless checks suggestions: the YAML
// parses to the schedule that they report, it fits, every region keeps a tick,
// and no single change can be reverted.
func TestASuggestionFitsAndChangesNothingNeedless(t *testing.T) {
	drawFewer(t, "25") // each searches a month of schedules: a hundred take half a minute with -race
	drawn, found := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		in := drawMonth(t)
		report, err := plan.Play(t.Context(), in)
		if _, never := errors.AsType[*quota.NeverFitsError](err); never {
			t.Skip("a cost above a limit")
		}
		if err != nil {
			t.Fatal(err)
		}
		if report.Fits {
			t.Skip("it fits as it is")
		}
		s, err := plan.Suggest(t.Context(), in, report)
		if err != nil {
			t.Fatal(err)
		}
		if s.Report == nil {
			if s.Reason == "" {
				t.Error("neither a suggestion nor a reason")
			}
			return
		}
		found++
		yaml := "version: 1\ntimezone: Asia/Kolkata\n" + s.YAML()
		config, err := jobs.Parse("regions.yaml", []byte(yaml), nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, yaml)
		}
		checkPrograms(t, in.Regions, config.Regions)
		again := *in
		again.Regions = config.Regions
		played, err := plan.Play(t.Context(), &again)
		if err != nil || !played.Fits || played.Units != s.Report.Units || played.Calls != s.Report.Calls {
			t.Fatalf("%v: played again: fits %t, %d calls; want %d:\n%s", err, played.Fits, played.Calls,
				s.Report.Calls, yaml)
		}
		for i, region := range played.Regions {
			if region.Ticks == 0 && report.Regions[i].Ticks > 0 {
				t.Errorf("%s has no tick left:\n%s", region.Region, yaml)
			}
		}
		checkEachChangeIsNeeded(t, again, config.Regions, s.Changes, yaml)
	})
	if found == 0 && drawn >= 25 { // fewer may all fit
		t.Error("nothing was suggested; draw other schedules")
	}
}

// checkPrograms checks that programs are written as they are.
func checkPrograms(t *rapid.T, from, to []jobs.Region) {
	for i := range from {
		for j, step := range from[i].Steps {
			if a, b := step.Program, to[i].Steps[j].Program; a != nil && a.String() != b.String() || a != nil &&
				a.Job != b.Job {
				t.Errorf("program %v became %v", a, b)
			}
		}
	}
}

// checkEachChangeIsNeeded checks that the schedule does not fit without one of
// its changes, nor with a page more.
func checkEachChangeIsNeeded(t *rapid.T, again plan.Input, regions []jobs.Region, changes []plan.Change, yaml string) {
	t.Helper()
	for _, c := range changes {
		again.Regions = without(t, c, regions)
		if played, err := plan.Play(t.Context(), &again); err != nil || played.Fits {
			t.Errorf("%v: without %v it fits as well:\n%s", err, c, yaml)
		}
		if c.What == "schedule" {
			continue
		}
		pages, err := strconv.Atoi(c.To)
		if err != nil {
			t.Fatal(err)
		}
		c.From = strconv.Itoa(pages + 1)
		again.Regions = without(t, c, regions)
		if played, err := plan.Play(t.Context(), &again); err != nil || played.Fits {
			t.Errorf("%v: with %s pages of %v it fits as well:\n%s", err, c.From, c, yaml)
		}
	}
}

// without reverts one change.
func without(t *rapid.T, c plan.Change, regions []jobs.Region) []jobs.Region {
	regions = slices.Clone(regions)
	i := slices.IndexFunc(regions, func(r jobs.Region) bool { return r.Name == c.Region })
	if c.What == "schedule" {
		schedule, err := jobs.ParseSchedule(c.From, regions[i].Schedule.Zone())
		if err != nil {
			t.Fatal(err)
		}
		regions[i].Schedule = schedule
		return regions
	}
	regions[i].Steps = slices.Clone(regions[i].Steps)
	j := slices.IndexFunc(regions[i].Steps, func(s jobs.Step) bool { return s.Name() == c.What })
	regions[i].Steps[j].Pages, _ = strconv.Atoi(c.From)
	return regions
}

// drawMonth draws realistic schedules over enough days that Suggest does not
// extend them.
func drawMonth(t *rapid.T) *plan.Input {
	from := time.Date(2026, 11, 20, 12, 7, 0, 0, time.UTC)
	in := &plan.Input{From: from, To: from.AddDate(0, 0, 9), Price: prices, Open: open,
		Jitter: time.Duration(rapid.IntRange(0, 20).Draw(t, "jitter")) * time.Minute}
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	specs := []string{"0 */6 * * *", "7 */3 * * *", "*/15 * * * *", "5-59/20 9-17 * * 1-5", "@hourly", "@daily",
		"@every 5h", "30 1,13 * * *", "0 9 1 * *", "@weekly", "59 23 * * *"}
	for _, name := range []string{"US", "NO", "BR"}[:rapid.IntRange(1, 3).Draw(t, "regions")] {
		schedule, err := jobs.ParseSchedule(rapid.SampledFrom(specs).Draw(t, "schedule"), kolkata)
		if err != nil {
			t.Fatal(err)
		}
		region := jobs.Region{Name: name, Schedule: schedule,
			Steps: []jobs.Step{{Kind: jobs.Trending, Pages: rapid.IntRange(1, 9).Draw(t, "pages")}}}
		if rapid.Bool().Draw(t, "searches") {
			pages := rapid.IntRange(1, 3).Draw(t, "pages")
			region.Steps = append(region.Steps, jobs.Step{Kind: jobs.Search, Query: "no", Pages: pages},
				jobs.Step{Kind: jobs.Search, Query: "\"é\\: #{", Pages: pages},
				jobs.Step{Kind: jobs.Search, Query: "3", Pages: 1}, jobs.Step{Kind: jobs.Categories, Pages: 1},
				jobs.Step{Kind: jobs.Channels, Pages: 2})
		}
		if rapid.Bool().Draw(t, "a program") {
			program := &command.Program{Args: []string{"./fetch.sh", "{region}", " a: \"é\"\n{{#"}, Job: "no: \"é\"",
				Timeout: 90 * time.Second}
			if rapid.Bool().Draw(t, "counted") {
				program.Calls = []command.Calls{{Method: "videos.list", Most: rapid.IntRange(1, 9).Draw(t, "calls")},
					{Method: "search.list", Most: 1}}
			}
			region.Steps = append(region.Steps, jobs.Step{Kind: jobs.Command, Pages: 1, Program: program})
		}
		in.Regions = append(in.Regions, region)
	}
	windows := []quota.Window{quota.Sliding(time.Hour), quota.Sliding(24 * time.Hour), quota.Daily(kolkata)}
	for _, name := range []string{"one", "two"} {
		b := quota.Budget{Account: "my-project", Name: name, Window: rapid.SampledFrom(windows).Draw(t, "window"),
			Limit: quota.Units(rapid.IntRange(10, 3000).Draw(t, "limit"))}
		if rapid.Bool().Draw(t, "search only") {
			b.Methods = []string{"search.list"}
			b.Limit += 100
		} else if rapid.Bool().Draw(t, "floor") {
			b.Floor = map[string]quota.Units{"NO": b.Limit / 3}
		}
		in.Budgets = append(in.Budgets, b)
	}
	return in
}

// TestMissingSuggestionIsFoundQuickly: Suggest used to take minutes for a
// schedule far beyond a monthly budget with floors.
func TestMissingSuggestionIsFoundQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("searches thousands of schedules")
	}
	from := at(t, "2026-10-31T03:00:00Z")
	in := &plan.Input{Regions: parse(t,
		"schedule: '*/10 * * * *'\nfetch: [{trending: {pages: 8}}, {search: {queries: [a, b], pages: 2}}]\nregions: "+
			"{US: {}, IN: {}, BR: {}, AU: {}}\n"),
		Budgets: []quota.Budget{{Account: "my-project", Name: "month", Limit: 400, Window: quota.Monthly(time.UTC),
			Floor: map[string]quota.Units{"US": 67, "IN": 10}}},
		From: from, To: from.AddDate(0, 0, 2)}
	report := play(t, in)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := plan.Suggest(ctx, in, report)
	if err != nil || s.Report != nil || !strings.Contains(s.Reason, "never fits") {
		t.Errorf("%v, %+v; want a reason, in time", err, s)
	}
}

// TestSuggestionsKeepTheMostCalls checks suggestions for simple schedules.
func TestSuggestionsKeepTheMostCalls(t *testing.T) {
	for name, c := range map[string]struct {
		regions string
		budget  quota.Budget
		want    string
	}{
		"minutes are enough": {"schedule: '@hourly'\nfetch: [{trending: {pages: 4}}]\nregions: {US: {}, IN: {}, BR: " +
			"{}}\n",
			quota.Budget{Limit: 5, Window: quota.Sliding(10 * time.Minute)},
			"IN schedule @hourly 30 * * * *, BR schedule @hourly 15 * * * *"},
		"minutes of the first region": {"schedule: '0 * * * *'\nfetch: [{trending: {pages: 4}}]\nregions: {US: {}, " +
			"IN: {schedule: '0,1 * * * *', fetch: [{trending: {pages: 2}}]}}\n",
			quota.Budget{Limit: 5, Window: quota.Sliding(10 * time.Minute)}, "US schedule 0 * * * * 16 * * * *"},
		"a page less": {"schedule: '0 */2 * * *'\nfetch: [{trending: {pages: 4}}]\nregions: {US: {}}\n",
			quota.Budget{Limit: 3, Window: quota.Sliding(time.Minute)}, "US trending 4 3"},
		"the expensive step alone": {"schedule: '0 */6 * * *'\nfetch: [{trending: {pages: 9}}, {search: {queries: " +
			"[music], pages: 3}}]\nregions: {US: {}}\n",
			quota.Budget{Limit: 1000, Window: quota.Sliding(24 * time.Hour), Methods: []string{"search.list"}},
			"US search:music 3 2"},
		"a program calls what it calls": {"schedule: '0 */6 * * *'\nfetch: [{trending: {pages: 9}}, {command: ./f, " +
			"calls: {videos.list: 5}}]\nregions: {US: {}}\n",
			quota.Budget{Limit: 8, Window: quota.Sliding(time.Minute)}, "US trending 9 3"},
		"no region pays for all": {"schedule: '*/15 * * * *'\nfetch: [{trending: {pages: 1}}]\nregions: {US: {}, " +
			"IN: {}, BR: {}, AU: {}}\n",
			quota.Budget{Limit: 104, Window: quota.Sliding(24 * time.Hour)},
			"US schedule */15 * * * * 0 * * * *, IN schedule */15 * * * * 0 * * * *, BR schedule */15 * * * * 0 * * " +
				"* *, AU schedule */15 * * * * 0 * * * *"},
	} {
		t.Run(name, func(t *testing.T) {
			c.budget.Account, c.budget.Name = "my-project", "all"
			from := at(t, "2026-11-20T00:30:00Z")
			in := &plan.Input{Regions: parse(t, c.regions), Budgets: []quota.Budget{c.budget}, From: from,
				To: from.AddDate(0, 0, 2), Jitter: 5 * time.Minute}
			report := play(t, in)
			s, err := plan.Suggest(t.Context(), in, report)
			if err != nil || s.Report == nil {
				t.Fatal(err, s)
			}
			var got []string
			for _, c := range s.Changes {
				got = append(got, strings.Join([]string{c.Region, c.What, c.From, c.To}, " "))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q; want %q; in\n%s", strings.Join(got, ", "), c.want, s.YAML())
			}
		})
	}
}

// TestASuggestionQuotesTheNamesOfRegions: the names of regions that are
// numbers, or null, were written without quotes, so that regions.yaml could not
// be read.
func TestASuggestionQuotesTheNamesOfRegions(t *testing.T) {
	schedule, err := jobs.ParseSchedule("@hourly", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"emea", "null", "true", "007", "1.50", "0x10", "1_000", "2026-11-26", "no"} {
		s := &plan.Suggestion{Regions: []jobs.Region{{Name: name, Schedule: schedule, Steps: []jobs.Step{
			{Kind: jobs.Command, Pages: 1, Program: &command.Program{Args: []string{"./fetch.sh"}, Job: "fetch",
				Timeout: time.Minute}}}}}}
		read, err := jobs.Parse("regions.yaml", []byte("version: 1\n"+s.YAML()), nil)
		if err != nil || read.Regions[0].Name != name {
			t.Errorf("%s: %v\n%s", name, err, s.YAML())
		}
	}
}
