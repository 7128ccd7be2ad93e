package costs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// uses are all presets and variants as a user writes them, with the prices of
// typical requests to their upstreams.
var uses = map[string]struct {
	lines    string            // below version and account
	requests map[string]string // VERB URL: method, units and budgets; "-" is refused
	methods  int               // with a cost
}{
	"youtube/2026-06": {"preset: youtube/2026-06", map[string]string{
		"GET https://www.googleapis.com/youtube/v3/search?q=x":                      "search.list 1 youtube-search",
		"POST https://youtube.googleapis.com/upload/youtube/v3/videos":              "videos.insert 1 youtube-upload",
		"GET https://youtube.googleapis.com/youtube/v3/videos:batchGetStats?id=a":   "videos.batchGetStats 1 youtube-stats",
		"GET https://youtube.googleapis.com/youtube/v3/videos?chart=mostPopular":    "videos.list 1 youtube-day",
		"POST https://youtube.googleapis.com/youtube/v3/playlists":                  "playlists.insert 50 youtube-day",
		"GET https://youtube.googleapis.com/youtube/v3/captions/abc":                "-",
		"GET https://content-youtube.googleapis.com/youtube/v3/liveChat/moderators": "-",
	}, 48},
	"youtube/2026-06 search-in-both": {"preset: {name: youtube/2026-06, variant: search-in-both}", map[string]string{
		"GET https://www.googleapis.com/youtube/v3/search":             "search.list 1 youtube-day youtube-search",
		"POST https://youtube.googleapis.com/upload/youtube/v3/videos": "videos.insert 1 youtube-upload",
	}, 48},
	"youtube/legacy": {"preset: youtube/legacy", map[string]string{
		"GET https://www.googleapis.com/youtube/v3/search":                        "search.list 100 youtube-day",
		"POST https://youtube.googleapis.com/upload/youtube/v3/videos":            "videos.insert 100 youtube-day",
		"PUT https://youtube.googleapis.com/upload/youtube/v3/captions":           "captions.update 450 youtube-day",
		"GET https://youtube.googleapis.com/youtube/v3/videos:batchGetStats?id=a": "-",
	}, 47},
	"github-rest": {"preset: github-rest", map[string]string{
		"GET https://api.github.com/repos/Owner/Repo/issues":        "read 1 github-hour github-points",
		"HEAD https://api.github.com/repos/o/r/contents/a%20b/ü.md": "read 1 github-hour github-points",
		"GET https://api.github.com/":                               "read 1 github-hour github-points",
		"GET https://api.github.com/search/issues?q=x":              "search 1 github-search github-points",
		"HEAD https://api.github.com/search/users?q=x":              "search 1 github-search github-points",
		"GET https://api.github.com/search/code?q=x":                "search.code 1 github-code-search github-points",
		"POST https://api.github.com/repos/o/r/issues":              "write 5 github-hour github-points",
		"DELETE https://api.github.com/repos/o/r/issues/1/lock":     "write 5 github-hour github-points",
		"POST https://api.github.com/graphql":                       "-",
		"POST https://api.github.com/Graphql":                       "-",
		"POST https://api.github.com/x/../graphql":                  "-",
	}, 4},
	"github-rest anonymous":  {"preset: {name: github-rest, variant: anonymous}", map[string]string{}, 4},
	"github-rest enterprise": {"preset: {name: github-rest, variant: enterprise}", map[string]string{}, 4},
	"shopify-graphql standard": {"preset: {name: shopify-graphql, variant: standard}\nhosts: [my-shop.myshopify.com]", map[string]string{
		"POST https://my-shop.myshopify.com/admin/api/2026-10/graphql.json":    "graphql 100 shopify",
		"GET https://my-shop.myshopify.com/admin/api/2026-10/graphql.json":     "-",
		"GET https://my-shop.myshopify.com/admin/api/2026-10/products.json":    "-",
		"POST https://my-shop.myshopify.com/admin/api/2026-10/x/graphql.json":  "-",
		"POST https://my-shop.myshopify.com/admin/api/2026-10//graphql.json":   "-",
		"POST https://my-shop.myshopify.com/admin/api/..%2Fx/graphql.json":     "-",
		"POST https://my-shop.myshopify.com/admin/api/2026-10/graphql.json%20": "-",
	}, 1},
	"shopify-graphql advanced":   {"preset: {name: shopify-graphql, variant: advanced}\nhosts: [a.example]", map[string]string{}, 1},
	"shopify-graphql plus":       {"preset: {name: shopify-graphql, variant: plus}\nhosts: [a.example]", map[string]string{}, 1},
	"shopify-graphql enterprise": {"preset: {name: shopify-graphql, variant: enterprise}\nhosts: [a.example]", map[string]string{}, 1},
	"salesforce": {"preset: salesforce\nhosts: [my.my.salesforce.com]\nbudgets: [{name: salesforce, limit: 115000}]", map[string]string{
		"GET https://my.my.salesforce.com/services/data/v65.0/query?q=SELECT+Id":        "call 1 salesforce",
		"PATCH https://my.my.salesforce.com/services/data/v65.0/sobjects/x/1":           "call 1 salesforce",
		"patch https://my.my.salesforce.com/services/data/v65.0/sobjects/x/1":           "-",
		"POST https://my.my.salesforce.com/services/data/v65.0/composite":               "call 1 salesforce",
		"POST https://my.my.salesforce.com/services/data/v65.0/composite/batch":         "composite.batch 25 salesforce",
		"POST https://my.my.salesforce.com/services/data/v65.0/connect/batch":           "connect.batch 25 salesforce",
		"POST https://my.my.salesforce.com/services/data/v65.0/graphql":                 "graphql 10 salesforce",
		"POST https://my.my.salesforce.com/services/data/v65.0/Composite/Batch":         "-",
		"POST https://my.my.salesforce.com/services/data/v65.0/composite//batch":        "-",
		"POST https://my.my.salesforce.com/services/data/v65.0/composite/batch/":        "-",
		"POST https://my.my.salesforce.com/services/data/v65.0/query?_HttpMethod=PATCH": "-",
	}, 4},
	"hubspot free":         {hubspotUse("free"), map[string]string{}, 1},
	"hubspot professional": {hubspotUse("professional"), map[string]string{"POST https://api.hubapi.com/crm/v3/objects/contacts/batch/read": "call 1 hubspot-10s hubspot-day"}, 1},
	"hubspot enterprise":   {hubspotUse("enterprise"), map[string]string{}, 1},
	"slack": {"preset: slack", map[string]string{
		"POST https://slack.com/api/chat.postMessage":             "chat.postMessage 1 slack-post",
		"GET https://slack.com/api/conversations.history?limit=9": "conversations.history 1 slack-history",
		"GET https://slack.com/api/conversations.List":            "-",
		"GET https://slack.com/api/users.info":                    "-",
		"GET https://slack.com/oauth/v2/authorize":                "-",
	}, 4},
	"openai gpt-4o-tier-1": {"preset: {name: openai, variant: gpt-4o-tier-1}", map[string]string{
		"POST https://api.openai.com/v1/chat/completions": "chat 1 openai-requests openai-tokens",
		"POST https://api.openai.com/v1/responses":        "responses 1 openai-requests openai-tokens",
		"POST https://api.openai.com/v1/embeddings":       "embeddings 1 openai-embedding-requests openai-embedding-tokens",
		"POST https://api.openai.com/v1/audio/speech":     "-",
		"GET https://api.openai.com/v1/models":            "-",
	}, 3},
	"openai gpt-4o-tier-2":      {"preset: {name: openai, variant: gpt-4o-tier-2}", map[string]string{}, 3},
	"openai gpt-4o-tier-4":      {"preset: {name: openai, variant: gpt-4o-tier-4}", map[string]string{}, 3},
	"openai gpt-4o-mini-tier-1": {"preset: {name: openai, variant: gpt-4o-mini-tier-1}", map[string]string{}, 3},
	"anthropic start": {"preset: {name: anthropic, variant: start}", map[string]string{
		"POST https://api.anthropic.com/v1/messages":         "messages 1 anthropic-requests anthropic-input-tokens anthropic-output-tokens",
		"POST https://api.anthropic.com/v1/messages/batches": "-",
	}, 1},
	"anthropic scale":           {"preset: {name: anthropic, variant: scale}", map[string]string{}, 1},
	"anthropic sonnet-4-tier-1": {"preset: {name: anthropic, variant: sonnet-4-tier-1}", map[string]string{}, 1},
	"slack outside-marketplace": {"preset: {name: slack, variant: outside-marketplace}", map[string]string{}, 4},
}

func hubspotUse(variant string) string {
	return "preset: {name: hubspot, variant: " + variant + "}\nresets: {day: Europe/Berlin}\nbudgets: [{name: hubspot-day, window: {day: Europe/Berlin}}]"
}

func use(t testing.TB, lines string) *costs.Table {
	t.Helper()
	return parse(t, "version: 1\naccount: a\n"+lines+"\n")
}

func TestPresetsPriceTheirTypicalRequests(t *testing.T) {
	for name, c := range uses {
		table := use(t, c.lines)
		for request, want := range c.requests {
			verb, url, _ := strings.Cut(request, " ")
			found, err := table.Quote(verb, url)
			got := "-"
			if err == nil {
				got = fmt.Sprint(found.Call.Method, " ", found.Call.Units)
				for _, b := range found.Budgets {
					got += " " + b.Name
				}
			} else if _, ok := errors.AsType[*costs.PriceError](err); !ok {
				t.Errorf("%s: %s: %v", name, request, err)
			}
			if got != want {
				t.Errorf("%s: %s: %s, %v; want %s", name, request, got, err, want)
			}
		}
		u := table.Upstreams()[0]
		if len(u.Costs) != c.methods {
			t.Errorf("%s: %d methods have a cost; want %d", name, len(u.Costs), c.methods)
		}
		if _, err := quota.NewGuard(guardable{}, table.Budgets(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, method := range u.Costs {
			if err := table.CheckFetched(method.Method, quota.Caller{Region: "US"}); err != nil {
				t.Errorf("%s: %s: %v", name, method.Method, err)
			}
		}
	}
}

// Every preset and variant is among the uses, and every figure has a document
// and the day on which it was read.
func TestPresetsNameTheirSources(t *testing.T) {
	presets := costs.Presets()
	if len(presets) == 0 || !slices.IsSortedFunc(presets, func(a, b costs.Preset) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d presets; want some, sorted by name", len(presets))
	}
	used := map[string]bool{}
	for _, c := range uses {
		u := use(t, c.lines).Upstreams()[0]
		used[strings.TrimSpace(u.Preset.Name+" "+u.Variant)] = true
		lines := [][]string{{"hosts"}, {"feedback"}, {"unlisted"}, {"upstream"}}
		for _, method := range u.Costs {
			lines = append(lines, []string{"costs", method.Method})
		}
		for _, b := range u.Budgets {
			lines = append(lines, []string{"budgets", b.Name, "limit"}, []string{"budgets", b.Name, "window"})
		}
		for _, line := range lines {
			origin := u.Origin(line...)
			own := origin.File == "costs.yaml" && origin.Line > 2 && origin.Preset == ""
			preset := origin.Preset == u.Preset.Name && origin.Source != nil && origin.Source.Document != "" && !origin.Source.Read.IsZero() && !origin.Source.Read.After(u.Preset.Date.Time)
			if !own && !preset {
				t.Errorf("%s: %v is from %+v", u.Preset.Name, line, origin)
			}
		}
	}
	for _, p := range presets {
		if !used[p.Name] && (len(p.Variants) == 0 || !used[p.Name+" "+p.Variants[0].Name]) {
			t.Errorf("preset %s is not tried", p.Name)
		}
		if p.Date.IsZero() || p.About == "" || len(p.Unknown) == 0 || !strings.Contains(p.YAML(), "version: 1") {
			t.Errorf("%s lacks a date, what it is for, what is not known or its text: %+v", p.Name, p)
		}
		if p.SupersededBy != nil && !slices.ContainsFunc(presets, func(other costs.Preset) bool { return other.Name == *p.SupersededBy }) {
			t.Errorf("%s is superseded by %s, which does not exist", p.Name, *p.SupersededBy)
		}
		for _, v := range p.Variants {
			if !used[p.Name+" "+v.Name] || v.About == "" {
				t.Errorf("variant %s of %s is not tried, or does not say what it is for", v.Name, p.Name)
			}
		}
		for _, s := range p.Sources {
			if line := strings.TrimPrefix(s.Lines, "budgets."); line != s.Lines && !strings.Contains(p.YAML(), "{name: "+strings.TrimSuffix(line, ".limit")) {
				t.Errorf("%s has a source for %s, which it does not have", p.Name, s.Lines)
			}
		}
	}
}

// The costs of the youtube presets equal those of the shared list of methods,
// if the file exists.
func TestYouTubePresetsHaveTheDocumentedCosts(t *testing.T) {
	legacy, now := use(t, uses["youtube/legacy"].lines), use(t, uses["youtube/2026-06"].lines)
	for _, row := range methods(t) {
		method := strings.TrimPrefix(row["method_id"], "youtube.")
		for table, want := range map[*costs.Table]string{legacy: row["cost_pre_2026_06"], now: row["cost_2026"]} {
			switch {
			case table == legacy && method == "videos.insert":
				want = "100"
			case row["cost_source"] != "documented" || want == "n/a":
				want = "0"
			}
			if call, _ := table.Call("", method); call.Units != quota.Units(atoi(want)) {
				t.Errorf("%s costs %d, documented is %s", method, call.Units, want)
			}
		}
	}
}

func TestFileOverridesItsPreset(t *testing.T) {
	table := use(t, `preset: youtube/2026-06
upstream: mine
hosts: [localhost]
not_modified_units: 0
reset_margin: 1m
costs: {search.list: 2, captions.download: 200}
budgets:
  - {name: youtube-search, limit: 6, count: units}
  - {name: all, limit: 9500, window: 24h}
  - {name: youtube-day, window: {day: UTC, at: "06:00"}, floor: {IN: 500}, floor_until: 2h}
when_ledger_down: {default: {allow: 50}}`)
	u := table.Upstreams()[0]
	pacific, _ := time.LoadLocation("America/Los_Angeles")
	day := quota.Daily(pacific).WithMargin(time.Minute)
	want := []quota.Budget{
		{Account: "a", Name: "youtube-day", Limit: 10000, Window: quota.Daily(time.UTC).At(6 * time.Hour).WithMargin(time.Minute), Except: []string{"search.list", "videos.insert", "videos.batchGetStats"},
			Floor: map[string]quota.Units{"IN": 500}, FloorUntil: 2 * time.Hour},
		{Account: "a", Name: "youtube-search", Limit: 6, Window: day, Methods: []string{"search.list"}},
		{Account: "a", Name: "youtube-upload", Limit: 100, Window: day, Measure: quota.Calls, Methods: []string{"videos.insert"}},
		{Account: "a", Name: "youtube-stats", Limit: 10000, Window: day, Measure: quota.Calls, Methods: []string{"videos.batchGetStats"}},
		{Account: "a", Name: "all", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	sameWindow := cmp.Comparer(func(a, b quota.Window) bool {
		return a.String() == b.String() && (a.Kind() != quota.KindCalendar || a.Day(noon) == b.Day(noon))
	})
	if diff := cmp.Diff(want, u.Budgets, sameWindow); diff != "" {
		t.Error(diff)
	}
	if got := u.ResetWindow.Day(noon); !got.Opens.Equal(time.Date(2026, 11, 21, 8, 1, 0, 0, time.UTC)) {
		t.Errorf("the upstream's day opens at %s", got.Opens)
	}
	if u.Name != "mine" || u.Feedback != "google" || u.Variant != "" || !slices.Equal(u.Hosts, []string{"localhost"}) || u.NotModified("playlists.insert") != 0 {
		t.Errorf("%+v", u)
	}
	if call, err := table.Call("", "captions.download"); err != nil || call.Units != 200 {
		t.Errorf("a cost of the file's own: %+v, %v", call, err)
	}
	for line, want := range map[string]string{
		"costs search.list": "costs.yaml:8", "costs videos.list": "preset youtube/2026-06", "hosts": "costs.yaml:5", "api": "preset youtube/2026-06",
		"budgets youtube-search limit": "costs.yaml:10", "budgets youtube-search window": "preset youtube/2026-06",
		"budgets youtube-search methods": "preset youtube/2026-06", "budgets all limit": "costs.yaml:11", "routes": "default",
	} {
		if got := u.Origin(strings.Fields(line)...).String(); got != want {
			t.Errorf("%s is from %s; want %s", line, got, want)
		}
	}
}

func TestParseReportsAllMistakesWithPresets(t *testing.T) {
	const head = "version: 1\naccount: a\n"
	var shipped []string
	for _, p := range costs.Presets() {
		shipped = append(shipped, p.Name)
	}
	for lines, want := range map[string]string{
		"preset: youtube/2026-6":                    `3:9: unknown preset "youtube/2026-6": write youtube/2026-06`,
		"preset: gmail\nhosts: [a]":                 `3:9: unknown preset "gmail": write one of ` + strings.Join(shipped, ", "),
		"preset: {variant: x}":                      `3:9: missing key "name": write name: youtube/2026-06`,
		"preset: {name: github-rest, variant: pro}": `3:38: unknown variant of github-rest "pro": write one of anonymous, enterprise`,
		"preset: {name: salesforce, variant: x}\nhosts: [a]\nbudgets: [{name: salesforce, limit: 9}]": `3:37: preset salesforce has no variants: remove it`,
		"preset: salesforce": `3:9: preset salesforce does not know the hosts: write hosts: [my-domain.my.salesforce.com]` + "\n" +
			`3:9: preset salesforce does not know the limit of budget "salesforce": write budgets: [{name: salesforce, limit: 115000}]: 100,000 and 1,000 for each licence, 5,000 with Unlimited`,
		"preset: {name: hubspot, variant: free}": `3:9: preset hubspot does not know the resets: write resets: {day: Europe/Berlin}, the time zone of the HubSpot account` + "\n" +
			`3:9: preset hubspot does not know the window of budget "hubspot-day": write budgets: [{name: hubspot-day, window: {day: Europe/Berlin}}], with the time zone of the HubSpot account`,
		"preset: hubspot\nresets: {day: UTC}": `3:9: preset hubspot does not know the limit of budget "hubspot-10s": write preset: {name: hubspot, variant: professional}, or the account's other tier: free, enterprise` + "\n" +
			`3:9: preset hubspot does not know the limit of budget "hubspot-day": write preset: {name: hubspot, variant: professional}, or the account's other tier: free, enterprise` + "\n" +
			`3:9: preset hubspot does not know the window of budget "hubspot-day": write budgets: [{name: hubspot-day, window: {day: Europe/Berlin}}], with the time zone of the HubSpot account`,
		"preset: shopify-graphql\nhosts: [a]": `3:9: preset shopify-graphql does not know the limit of budget "shopify": write preset: {name: shopify-graphql, variant: standard}, or the shop's other plan: advanced, plus, enterprise`,
		"preset: github-rest\nbudgets: [{name: github-hours, limit: 100}, {name: github-hour}, {name: github-hour, limit: 1}]": `4:11: missing key "window": preset github-rest has no budget "github-hours" to take it from: write github-hour, or its window` + "\n" +
			`4:66: repeated budget "github-hour" in one account: write another name`,
		"preset: github-rest\ncosts: {read: 901, wrote: 1}": `4:15: read costs 901, more than the limit 900 of budget "github-points": lower the cost or raise the limit`,
		"preset: github-rest\ncosts: {grapqhl: 1}":          `4:9: unknown method "grapqhl": write graphql, to which the routes lead`,
		"preset: youtube/2026-06\nroutes: {GET /x: read}":   `4:9: routes beside an api: remove one, since api youtube/v3 says which verb and path is which method`,
		"preset: youtube/2026-06\n---\n" + head + "preset: youtube/legacy": "7:9: repeated host youtube.googleapis.com: write it once, since a request finds its upstream by host\n" +
			"7:9: repeated host www.googleapis.com: write it once, since a request finds its upstream by host\n" +
			"7:9: repeated host youtube.mtls.googleapis.com: write it once, since a request finds its upstream by host\n" +
			"7:9: repeated host content-youtube.googleapis.com: write it once, since a request finds its upstream by host\n" +
			"7:9: repeated upstream \"youtube\": write another name\n" +
			"7:9: repeated budget \"youtube-day\" in one account: write another name",
	} {
		_, err := costs.Parse("costs.yaml", []byte(head+lines+"\n"))
		var got []string
		if err != nil {
			got = strings.Split(strings.ReplaceAll(err.Error(), "costs.yaml:", ""), "\n")
		}
		wanted := strings.Split(want, "\n")
		slices.Sort(got)
		slices.Sort(wanted)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q: %s", lines, diff)
		}
	}
}

// A limit below the cost of a method of the preset is not a mistake: only a
// call of that method is an error.
func TestCheckFetchedReportsCallsThatNeverFit(t *testing.T) {
	table := use(t, "preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 300, floor: {IN: 150, US: 60}}]")
	for method, regions := range map[string]map[string]bool{
		"captions.insert": {"IN": false, "US": false, "GB": false},
		"search.list":     {"IN": true, "US": true, "GB": false},
		"videos.list":     {"IN": true, "GB": true, "": true},
	} {
		for region, fits := range regions {
			err := table.CheckFetched(method, quota.Caller{Region: region})
			if fits != (err == nil) || err != nil && !errors.Is(err, quota.ErrNeverFits) {
				t.Errorf("%s for %q: %v", method, region, err)
			}
		}
	}
	until := use(t, "preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 300, floor: {IN: 300}, floor_until: 1h}]")
	if err := until.CheckFetched("videos.list", quota.Caller{Region: "GB"}); err != nil {
		t.Errorf("it fits in the last hour: %v", err)
	}
}

func TestTooManyCoveragesAreRefused(t *testing.T) {
	floors := []string{}
	for i := range quota.MaxCoverages {
		floors = append(floors, fmt.Sprintf("%c%c: 1", 'A'+i/26, 'A'+i%26))
	}
	_, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 1000, window: 24h, floor: {"+strings.Join(floors, ", ")+"}}]\n"))
	if err == nil || !strings.Contains(err.Error(), `4:11: the budgets of account "a" cover more than 64 different sets of calls, floors included: remove some`) {
		t.Error(err)
	}
}

func TestANotModifiedAnswerCostsAtMostTheFullCost(t *testing.T) {
	for lines, want := range map[string][2]quota.Units{"": {3, 10}, "not_modified_units: 0": {0, 0}, "not_modified_units: 5": {3, 5}} {
		u := use(t, lines+"\ncosts: {a: 3, b: 10}\nbudgets: [{name: all, limit: 10, window: 1h}]").Upstreams()[0]
		if got := [2]quota.Units{u.NotModified("a"), u.NotModified("b")}; got != want {
			t.Errorf("%q: a 304 costs %v; want %v", lines, got, want)
		}
		if u.Feedback != "generic" {
			t.Errorf("feedback is %s", u.Feedback)
		}
	}
}

func BenchmarkParsePreset(b *testing.B) {
	b.ReportAllocs()
	data := []byte("version: 1\naccount: a\npreset: youtube/2026-06\n")
	for b.Loop() {
		if _, err := costs.Parse("costs.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
