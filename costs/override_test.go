package costs_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
)

// The shipped file with the new preset and without its own costs used to allow
// 4,000 searches a day: its limit of units became one of calls.
func TestUnitLimitOverACallPresetIsAMistake(t *testing.T) {
	data, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)\ncosts:\n.*\n# A call is charged`).ReplaceAllString(string(data),
		"\n# A call is charged")
	text = strings.Replace(text, "\nversion: 1\n", "\nversion: 1\npreset: youtube/2026-06\n", 1)
	if strings.Contains(text, "\ncosts:") || !strings.Contains(text, "\npreset:") ||
		!strings.Contains(text, "youtube-search, limit: 4000") {
		t.Fatalf("the shipped file has another form:\n%s", text)
	}
	_, err = costs.Parse("costs.yaml", []byte(text))
	const want = `limit 4000 counts units as it is written, and calls with count: calls of preset youtube/2026-06, ` +
		`budget "youtube-search": write count: calls or count: units beside it`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Each entry overrides the current preset; want is its mistake, or "".
func TestOverridesThatChangeWhatAnInheritedLineMeansAreMistakes(t *testing.T) {
	const youtube, hubspot = "youtube/2026-06", "{name: hubspot, variant: free}\nresets: {day: UTC}"
	for _, c := range []struct{ preset, entry, want string }{
		{youtube, "{name: youtube-day, limit: 9500}", ""},
		{youtube, "{name: youtube-day, limit: 9500, floor: {IN: 500}, floor_until: 2h}", ""},
		{youtube, "{name: youtube-day, floor: {IN: 500}}", ""},
		{youtube, "{name: youtube-day, window: {day: UTC, at: \"06:00\"}}", ""},
		{youtube, "{name: youtube-search, limit: 50, count: calls}", ""},
		{youtube, "{name: youtube-search, limit: 50, count: units}", ""},
		{youtube, "{name: youtube-search, count: calls}", ""},
		{youtube, "{name: youtube-search, methods: [search.list]}", ""},
		{youtube, "{name: youtube-search, limit: 50, count: calls, window: 24h, methods: [search.list, videos.insert]}",
			""},
		{youtube, "{name: own, limit: 9500, window: 24h}", ""},
		{"github-rest", "{name: github-points, limit: 500, window: 30s}", ""},

		{youtube, "{name: youtube-search, limit: 50}",
			`limit 50 counts units as it is written, and calls with count: calls of preset youtube/2026-06, budget ` +
				`"youtube-search"`},
		{youtube, "{name: youtube-search, limit: 4000, window: 24h, methods: [search.list]}",
			"limit 4000 counts units as it is written"},
		{youtube, "{name: youtube-search, floor: {IN: 5}}", "floor [IN:5] counts units as it is written"},
		{youtube, "{name: youtube-search, count: units}",
			`count units over the limit 100 of preset youtube/2026-06, budget "youtube-search", which is for count ` +
				`calls: write the limit as well`},
		{youtube, "{name: youtube-day, count: calls}",
			`count calls over the limit 10000 of preset youtube/2026-06, budget "youtube-day", which is for count ` +
				`units: write the limit as well`},
		{youtube, "{name: youtube-day, window: 1m}",
			"window 1m over the limit 10000 of preset youtube/2026-06, budget \"youtube-day\", which is for window " +
				"{day: America/Los_Angeles}: write the limit as well"},
		{youtube, "{name: youtube-day, window: 24h}", "window 24h over the limit 10000"},
		{youtube, "{name: youtube-day, window: {month: UTC}}", "window {month: UTC} over the limit 10000"},
		{"github-rest", "{name: github-points, window: 30s}", "window 30s over the limit 900"},
		{youtube, "{name: youtube-search, methods: [videos.insert]}",
			"methods [videos.insert] over the limit 100 of preset youtube/2026-06, budget \"youtube-search\", which " +
				"is for methods [search.list]"},
		{youtube, "{name: youtube-search, methods: [search.list, videos.insert]}",
			"methods [search.list, videos.insert] over the limit 100"},
		{youtube, "{name: youtube-day, except: [search.list]}", "except [search.list] over the limit 10000"},
		{youtube, "{name: youtube-day, lanes: [cron]}",
			"lanes [cron] over the limit 10000 of preset youtube/2026-06, budget \"youtube-day\", which is for all " +
				"lanes"},
		{youtube, "{name: youtube-day, regions: [IN]}", "regions [IN] over the limit 10000"},
		{youtube, "{name: youtube-day, limit: 9500, window: 24h}",
			`limit and window make budget "youtube-day" a whole one, and preset youtube/2026-06, budget ` +
				`"youtube-day" has except [search.list, videos.insert, videos.batchGetStats] beside them: write ` +
				`except as well, or another name`},
		{youtube, "{name: youtube-search, limit: 50, count: calls, window: 24h}",
			"has methods [search.list] beside them: write methods as well"},
		{"salesforce\nhosts: [a.example]", "{name: salesforce, window: 12h}",
			`preset salesforce does not know the limit of budget "salesforce"`},
		{youtube, "{limit: 5}", `missing key "name"`}, // and not that the preset has no budget ""
		{youtube, "5", "write a map"},
		{hubspot, "{name: hubspot-day, window: {day: UTC}}", ""},
		{hubspot, "{name: hubspot-day, window: {day: UTC}, limit: 5}", ""},
	} {
		_, err := costs.Parse("costs.yaml",
			[]byte("version: 1\naccount: a\npreset: "+c.preset+"\nbudgets: ["+c.entry+"]\n"))
		mistakes, _ := errors.AsType[*strictyaml.Error](err)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.entry, err)
		case c.want != "" && (mistakes == nil || len(mistakes.Mistakes) != 1 ||
			!strings.Contains(err.Error(), c.want) || mistakes.Mistakes[0].Column != 11):
			t.Errorf("%s: %v\nwant %s", c.entry, err, c.want)
		}
	}
}
