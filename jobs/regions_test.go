package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

func TestShippedRegionsAreFetchable(t *testing.T) {
	table, err := costs.Parse("costs.yaml", shipped(t, "../costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := jobs.Parse("regions.yaml", shipped(t, "../regions.yaml"), table.CheckFetched)
	if err != nil {
		t.Fatal(err)
	}
	var names, specs []string
	for _, region := range config.Regions {
		names = append(names, region.Name)
		specs = append(specs, region.Schedule.String())
		if len(region.Steps) != 4 {
			t.Errorf("%s has steps %v; want the four shared ones", region.Name, region.Steps)
		}
	}
	if got := strings.Join(names, " "); got != "US GB DE FR IN BR AU CA" {
		t.Errorf("regions %s; want the eight of the README", got)
	}
	slices.Sort(specs)
	if len(slices.Compact(specs)) != 8 {
		t.Errorf("schedules %q; want each region some minutes from the others", specs)
	}
	if config.MaxWait != 30*time.Second || config.MaxTotalWait != 5*time.Minute {
		t.Errorf("waits %s and %s", config.MaxWait, config.MaxTotalWait)
	}
}

func TestParseReportsEveryMistake(t *testing.T) {
	for name, c := range map[string]struct {
		yaml string
		want []string
	}{
		"empty":         {"", []string{"r.yaml"}},
		"nothing in it": {"version: 1\n", []string{`1:1: missing key "regions": write regions: {US: {}}`}},
		"null regions":  {"version: 1\nregions:\n", []string{"regions is not a map: write regions: {US: {}}"}},
		"list of regions": {"version: 1\nregions: [US, GB]\n",
			[]string{"2:10: regions is not a map: write regions: {US: {}}"}},
		"null region": {"version: 1\nschedule: \"@hourly\"\nfetch: [categories]\nregions:\n  US:\n  GB: {}\n",
			[]string{"5:6: US is not a map: write US: {}"}},
		"no regions": {"version: 1\nregions: {}\n", []string{"no region: write regions: {US: {}}"}},
		"another file": {"version: 2\nregons: {US: {}}\n",
			[]string{"1:10: version is 2: write 1", `2:1: unknown key "regons": write regions`}},
		"no schedule": {"version: 1\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{"1:1: no schedule for US: write"}},
		"nothing to do": {"version: 1\nschedule: '@daily'\nregions: {US: {}}\n",
			[]string{"1:1: nothing to fetch for US: write"}},
		"schedule typo": {"version: 1\nshedule: '@daily'\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{`2:1: unknown key "shedule": write schedule`}},
		"fetch typo": {"version: 1\nschedule: '@daily'\nregions: {US: {ftech: [categories]}}\n",
			[]string{`3:16: unknown key "ftech": write fetch`}},
		"bad cron": {"version: 1\nschedule: 61 * * * *\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{`2:11: schedule "61 * * * *" is not a cron line`}},
		"too often": {"version: 1\nschedule: '@every 1s'\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{"has more than one tick a minute"}},
		"empty fetch": {"version: 1\nschedule: '@daily'\nfetch: []\nregions: {US: {}}\n",
			[]string{"3:8: fetch is empty"}},
		"impossible day": {"version: 1\nschedule: 0 0 30 2 *\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{"has no tick"}},
		"zone in cron": {"version: 1\nschedule: CRON_TZ=UTC 0 0 * * *\nfetch: [categories]\nregions: {US: {}}\n",
			[]string{"names a zone: write it as timezone"}},
		"bad zone": {"version: 1\ntimezone: Mars/Base\nschedule: '@daily'\nfetch: [categories]\nregions: " +
			"{US: {}}\n", []string{"2:11: timezone is"}},
		"many at once": {"version: 1\nschedule: '@daily'\nmax_wait: -1s\nfetch:\n  - trending: {pages: 0}\n  - " +
			"serch: {}\n  - search: {pages: 1}\n  - channels\n  - channels\nregions:\n  usa: {}\n  GB: {fetch: " +
			"{}}\n  GB: {}\n",
			[]string{"3:11: max_wait", "5:23: pages is 0: write an integer from 1 to 100",
				`6:5: unknown step "serch": write search`, `7:13: missing key "queries"`,
				"9:5: channels is fetched twice", `11:3: unknown region "usa"`, "12:15: fetch is",
				`13:3: repeated key "GB"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jobs.Parse("r.yaml", []byte(c.yaml), nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing from:\n%v", want, err)
				}
			}
			if mistakes := strings.Count(err.Error(), "\n") + 1; mistakes != len(c.want) {
				t.Errorf("%d mistakes; want %d:\n%v", mistakes, len(c.want), err)
			}
		})
	}
}

// TestUnknownStepIsReportedOnce: an invalid item is one mistake, and does not
// also make the list empty.
func TestUnknownStepIsReportedOnce(t *testing.T) {
	for fetch, want := range map[string]string{
		"[nonsense]": `3:9: unknown step "nonsense": write one of trending, search, channels, ` +
			`categories, command`,
		"[{trendin: {pages: 2}}]": `3:10: unknown step "trendin": write trending`,
		"[trending, {nonsense: {}}]": `3:20: unknown step "nonsense": write one of trending, search, channels, ` +
			`categories, command`,
		"[search]":                  "3:9: search needs queries: write search: {queries: [music]}",
		"[{search: {queries: []}}]": "3:28: queries is empty: write queries: [music]",
		"[{search: {queries: [1, 2]}}]": "3:29: an item of queries is 1: write it in quotes if a text is " +
			"meant\nregions.yaml:3:32: an item of queries is 2: write it in quotes if a text is meant",
		// A query that the job search:QUERY could not hold ended run and plan.
		"[{search: {queries: [" + strings.Repeat("é", 61) +
			"]}}]": "3:29: an item of queries has 122 bytes: write at most 121",
		"[{}]":                           "3:9: empty item in fetch: write trending: {pages: 4}, or remove it",
		"[{trending: {}, channels: {}}]": "3:24: second step in one item: start each step with its own dash",
		"[{trending: {}, channels: {}, nonsense: 1}]": "3:24: second step in one item: start each step with its own " +
			"dash\nregions.yaml:3:38: second step in one item: start each step with its own dash",
		"[]":       "3:8: fetch is empty: write fetch: [{trending: {pages: 4}}]",
		"trending": `3:8: fetch is "trending": write a list, [first, second]`,
	} {
		_, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\nschedule: '@daily'\nfetch: "+fetch+"\nregions: {US: {}, GB: {}}\n"), nil)
		if got := fmt.Sprint(err); got != "regions.yaml:"+want {
			t.Errorf("%s: got\n%s\nwant\nregions.yaml:%s", fetch, got, want)
		}
	}
	for regions, want := range map[string]string{
		"[US]":      "4:10: regions is not a map: write regions: {US: {}}",
		"{usa: {}}": `4:11: unknown region "usa": write US`,
		"{}":        "4:10: no region: write regions: {US: {}}",
	} {
		_, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\nschedule: '@daily'\nfetch: [trending]\nregions: "+regions+"\n"), nil)
		if got := fmt.Sprint(err); got != "regions.yaml:"+want {
			t.Errorf("%s: got\n%s\nwant\nregions.yaml:%s", regions, got, want)
		}
	}
}

// TestMissingKeyIsReportedOnce: a schedule or fetch that regions lack was one
// mistake for each of them.
func TestMissingKeyIsReportedOnce(t *testing.T) {
	_, err := jobs.Parse("regions.yaml",
		[]byte("version: 1\nregions:\n  US: {}\n  GB: {}\n  DE: {schedule: '@daily'}\n"), nil)
	const want = "regions.yaml:1:1: no schedule for US and 1 more region: write schedule: \"0 */6 * * *\", here or " +
		"in each region\n" +
		"regions.yaml:1:1: nothing to fetch for US and 2 more regions: write fetch: [{trending: {pages: 4}}], here " +
		"or in each region"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestParseAppliesEveryKey checks the value of each key in the Config.
func TestParseAppliesEveryKey(t *testing.T) {
	config, err := jobs.Parse("regions.yaml", []byte(`
version: 1
timezone: Asia/Kolkata
schedule: "30 5 * * *"
max_wait: 7s
max_total_wait: 11m
fetch: [trending, categories, channels, {search: {queries: [a, b]}}]
regions:
  US: {}
  IN: {schedule: "0 6 * * *", fetch: [{trending: {pages: 2}}, {channels: {pages: 3}}, {search: {queries: [c], pages: 5}}]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if config.MaxWait != 7*time.Second || config.MaxTotalWait != 11*time.Minute {
		t.Errorf("waits %s and %s; want 7s and 11m", config.MaxWait, config.MaxTotalWait)
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var got []string
	for _, r := range config.Regions {
		got = append(got, r.Name, r.Schedule.Zone().String(), r.Schedule.Tick(now).Format("15:04"))
		for _, s := range r.Steps {
			got = append(got, fmt.Sprintf("%s=%d", s.Name(), s.Pages))
		}
	}
	want := "US Asia/Kolkata 00:00 trending=4 categories=1 channels=10 search:a=1 search:b=1 IN Asia/Kolkata 00:30 " +
		"trending=2 channels=3 search:c=5"
	if got := strings.Join(got, " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, longest := range []string{"max_wait: 0s\nmax_total_wait: 0s", "max_wait: 1h\nmax_total_wait: 24h"} {
		if _, err := jobs.Parse("r.yaml",
			[]byte("version: 1\nschedule: '@daily'\nfetch: [trending]\nregions: {US: {}}\n"+longest+"\n"),
			nil); err != nil {
			t.Error(err)
		}
	}
}

func TestRegionsChecksEachStepOnce(t *testing.T) {
	refuse := func(method string, caller quota.Caller) error {
		if method == "search.list" && caller.Region == "IN" {
			return errors.New("no budget for " + caller.Job + " in " + caller.Region)
		}
		return nil
	}
	_, err := jobs.Parse("r.yaml",
		[]byte("version: 1\nschedule: '@daily'\nfetch: [{search: {queries: [a]}}, categories]\nregions: {US: {}, "+
			"IN: {}, BR: {}}\n"), refuse)
	wrong, ok := errors.AsType[*strictyaml.Error](err)
	if !ok || len(wrong.Mistakes) != 1 || wrong.Mistakes[0].Line != 3 {
		t.Errorf("got %v; want the one step that has no budget", err)
	}
}

// TestAMethodOfSeveralUpstreamsIsAMistake: the advice was to name the upstream,
// for which regions.yaml has no key.
func TestAMethodOfSeveralUpstreamsIsAMistake(t *testing.T) {
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: a\ncosts: {read: 1}\nbudgets: [{name: all, limit: 9, window: "+
			"1h}]\n---\nversion: 1\naccount: b\ncosts: {read: 1}\nbudgets: [{name: all, limit: 9, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Parse("r.yaml",
		[]byte("version: 1\nschedule: '@daily'\nfetch: [{command: ./x, calls: {read: 1}}]\nregions: {US: {}}\n"),
		table.CheckFetched)
	const want = "r.yaml:3:32: several upstreams of costs.yaml have a method read: rename that of one there, or " +
		"leave it out of calls"
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A mistake used to come with others that it caused, in front of it.
func TestOneMistakeIsReportedOnce(t *testing.T) {
	const rest = "fetch: [channels]\nregions: {US: {}, IN: {}}\n"
	for text, want := range map[string]string{
		"schedule: */6 * * * *\n" +
			rest: `2:11: an alias (*): write the value out; a text that begins with * goes in quotes`,
		"fetch: [channels]\nregions: {US: {schedule: */6 * * * *}}\n": `3:26: an alias (*): ` +
			`write the value out; a text that begins with * goes in quotes`,
		"fetch: [channels]\nregions: {US: {schedule: 7}}\n": "3:26: schedule is 7: " +
			"write it in quotes if a text is meant",
		"schedule: 0 0 * * *\nfetch: [chanels]\nregions: {US: {}, IN: {}}\n": `3:9: ` +
			`unknown step "chanels": write channels`,
		"schedule: 0 0 * * *\nfetch: [{bogus: {pages: 4}}]\nregions: {US: {}, IN: {}}\n": `3:10: ` +
			`unknown step "bogus": write one of trending, search, channels, categories, command`,
		"schedule: 0 0 * * *\nfetch: [search]\nregions: {US: {}, IN: {}}\n": "3:9: search needs " +
			"queries: write search: {queries: [music]}",
		"schedule: 0 0 * * *\nfetch: []\nregions: {US: {}, IN: {}}\n": "3:8: fetch is empty: " +
			"write fetch: [{trending: {pages: 4}}]",
		"max_wait: 1w\nschedule: 0 0 * * *\n" +
			rest: `2:11: max_wait is "1w": write a duration from 0s to 1h, such as 10m or 30s`,
	} {
		if _, err := jobs.Parse("regions.yaml", []byte("version: 1\n"+text), nil); err == nil ||
			err.Error() != "regions.yaml:"+want {
			t.Errorf("%q:\ngot  %v\nwant regions.yaml:%s", text, err, want)
		}
	}
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "5s": 5 * time.Second,
		"0.01d": 864 * time.Second} {
		config, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\nmax_wait: "+text+"\nmax_total_wait: 1d\nschedule: 0 0 * * *\n"+rest), nil)
		if err != nil || config.MaxWait != want || config.MaxTotalWait != 24*time.Hour {
			t.Errorf("max_wait: %s: %+v, %v", text, config, err)
		}
	}
}

// TestTheRegionsSchemaHasTheParsersKeys checks that the JSON Schema and the
// parser have the same keys.
func TestTheRegionsSchemaHasTheParsersKeys(t *testing.T) {
	data, err := os.ReadFile("../docs/regions.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]json.RawMessage
		Defs       struct {
			Fetch struct {
				Items struct {
					AnyOf []struct{ Properties map[string]json.RawMessage }
				}
			}
			Program struct{ Properties map[string]json.RawMessage }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	_, err = jobs.Parse("r.yaml", []byte("nonsense: 1\n"), nil)
	listed := slices.Sorted(maps.Keys(schema.Properties))
	for _, key := range listed {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("the schema has %q, which the parser does not offer: %v", key, err)
		}
	}
	if len(listed) != 7 {
		t.Errorf("the schema has keys %q; want the parser's seven", listed)
	}
	steps := slices.Sorted(maps.Keys(schema.Defs.Fetch.Items.AnyOf[1].Properties))
	if got := strings.Join(steps, " "); got != "categories channels search trending" {
		t.Errorf("the schema has steps %s", got)
	}
	_, err = jobs.Parse("r.yaml", []byte("version: 1\nfetch: [{command: f, nonsense: 1}]\nregions: {US: {}}\n"), nil)
	if keys := slices.Sorted(maps.Keys(schema.Defs.Program.Properties)); strings.Join(keys,
		" ") != "calls command job timeout" || !strings.Contains(err.Error(), "command, job, calls, timeout") {
		t.Errorf("the schema has keys %s of a program; the parser says %v", keys, err)
	}
}

func TestNowLiesBetweenTickAndNext(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) time.Time {
		parsed, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, c := range []struct {
		spec            string
		zone            *time.Location
		now, tick, next string
	}{
		{"0 */6 * * *", time.UTC, "2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z", "2026-11-20T18:00:00Z"},
		{"0 */6 * * *", time.UTC, "2026-11-20T11:59:59.999Z", "2026-11-20T06:00:00Z", "2026-11-20T12:00:00Z"},
		{"*/15 9 * * 1-5", time.UTC, "2026-11-22T23:00:00Z", "2026-11-20T09:45:00Z", "2026-11-23T09:00:00Z"},
		{"0 0 29 2 *", time.UTC, "2026-11-20T00:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 9 * * *", berlin, "2026-10-25T07:59:00Z", "2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"},
		{"@hourly", time.UTC, "2026-11-20T12:34:56Z", "2026-11-20T12:00:00Z", "2026-11-20T13:00:00Z"},
		{"@every 7m", time.UTC, "2026-11-20T12:34:56Z", "2026-11-20T12:31:00Z", "2026-11-20T12:38:00Z"},
		{"@every 1d", berlin, "2026-11-20T12:34:56Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"},
		{"@every 6h", berlin, "2026-11-20T06:00:00Z", "2026-11-20T06:00:00Z", "2026-11-20T12:00:00Z"},
	} {
		s, err := jobs.ParseSchedule(c.spec, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Tick(at(c.now)); !got.Equal(at(c.tick)) {
			t.Errorf("%s at %s: tick %s; want %s", c.spec, c.now, got, c.tick)
		}
		if got := s.Next(at(c.now)); !got.Equal(at(c.next)) {
			t.Errorf("%s at %s: next %s; want %s", c.spec, c.now, got, c.next)
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

func TestLoadReadsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "regions.yaml")
	if _, err := jobs.Load(path, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path,
		[]byte("version: 1\nschedule: 0 11 * * *\nfetch: [trending]\nregions: {US: {}, IN: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if config, err := jobs.Load(path, nil); err != nil || len(config.Regions) != 2 {
		t.Errorf("%+v, %v; want two regions", config, err)
	}
}
