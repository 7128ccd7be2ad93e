package costs_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// uses are the lines below version and account for each preset and variant, as
// its asks say them; the keys are such as hubspot and hubspot free.
var uses = usesOfPresets()

func usesOfPresets() map[string]string {
	uses := map[string]string{}
	for _, p := range costs.Presets() {
		variants := []string{""}
		for _, v := range p.Variants {
			variants = append(variants, v.Name)
		}
		for _, variant := range variants {
			if lines, ok := askedLines(&p, variant); ok {
				uses[strings.TrimSpace(p.Name+" "+variant)] = lines
			}
		}
	}
	return uses
}

// askedLines returns a use of a preset: all that it asks for, in one document.
// It is not ok if the preset asks for a variant and there is none.
func askedLines(p *costs.Preset, variant string) (lines string, ok bool) {
	budgets, named := map[string]map[string]any{}, any(p.Name)
	if variant != "" {
		named = map[string]any{"name": p.Name, "variant": variant}
	}
	asked := map[string]any{"preset": named}
	for _, ask := range p.Required {
		var line map[string]any
		if err := yaml.Unmarshal([]byte(ask.Write), &line); err != nil {
			panic(fmt.Sprintf("%s asks for %s: %v", p.Name, ask.Line, err))
		}
		if _, choosesVariant := line["preset"]; choosesVariant {
			if variant == "" {
				return "", false
			}
			continue
		}
		for key, value := range line {
			if key != "budgets" {
				asked[key] = value
				continue
			}
			for _, entry := range value.([]any) {
				budget := entry.(map[string]any)
				name := budget["name"].(string)
				if budgets[name] == nil {
					budgets[name] = map[string]any{}
				}
				maps.Copy(budgets[name], budget)
			}
		}
	}
	if len(budgets) > 0 {
		asked["budgets"] = slices.Collect(maps.Values(budgets))
	}
	text, err := yaml.Marshal(asked)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text)), true
}

// firstUse returns the use of a preset without a variant, or with the first.
func firstUse(p *costs.Preset) string {
	if lines, ok := uses[p.Name]; ok {
		return lines
	}
	return uses[p.Name+" "+p.Variants[0].Name]
}

func use(t testing.TB, lines string) *costs.Table {
	t.Helper()
	return parse(t, "version: 1\naccount: a\n"+lines+"\n")
}

// TestPresetsCostWhatTheirExamplesSay: each preset says what some requests
// cost, with what it asks for and nothing else.
func TestPresetsCostWhatTheirExamplesSay(t *testing.T) {
	for _, p := range costs.Presets() {
		table, priced := use(t, firstUse(&p)), 0
		for _, example := range p.Examples {
			if got := costOf(t, table, example.Request); got != example.Cost {
				t.Errorf("%s: %s: %s; want %s", p.Name, example.Request, got, example.Cost)
			} else if got != "refused" && got != "unguarded" {
				priced++
			}
		}
		if priced == 0 {
			t.Errorf("%s has no example of a request with a cost", p.Name)
		}
	}
	both := use(t, uses["youtube/2026-06 search-in-both"])
	if got := costOf(t, both,
		"GET https://www.googleapis.com/youtube/v3/search"); got != "search.list 1 youtube-day youtube-search" {
		t.Errorf("search-in-both: a search is %s", got)
	}
}

// costOf returns what VERB URL costs, in the words of an example.
func costOf(t *testing.T, table *costs.Table, request string) string {
	t.Helper()
	verb, url, _ := strings.Cut(request, " ")
	found, err := table.Quote(verb, url)
	if _, ok := errors.AsType[*costs.PriceError](err); ok {
		return "refused"
	}
	if err != nil {
		t.Errorf("%s: %v", request, err)
	}
	if !found.Guarded {
		return "unguarded"
	}
	got := fmt.Sprint(found.Call.Method, " ", found.Call.Units)
	for _, b := range found.Budgets {
		got += " " + b.Name
	}
	return got
}

// TestEachCallOfAPresetFitsItsBudgets: a guard takes the budgets of each preset
// and variant, and each method fits them.
func TestEachCallOfAPresetFitsItsBudgets(t *testing.T) {
	for name, lines := range uses {
		table := use(t, lines)
		if _, err := quota.NewGuard(guardable{}, table.Budgets(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, method := range table.Upstreams()[0].Costs {
			if err := table.CheckFetched(method.Method, quota.Caller{Region: "US"}); err != nil {
				t.Errorf("%s: %s: %v", name, method.Method, err)
			}
		}
	}
}

// Every figure of a preset and its variants has a document and the day on which
// it was read.
func TestPresetsNameTheirSources(t *testing.T) {
	presets := costs.Presets()
	if len(presets) == 0 || !slices.IsSortedFunc(presets,
		func(a, b costs.Preset) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d presets; want some, sorted by name", len(presets))
	}
	for _, text := range uses {
		u := use(t, text).Upstreams()[0]
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
			preset := origin.Preset == u.Preset.Name && origin.Source != nil && origin.Source.Document != "" &&
				!origin.Source.Read.IsZero() && !origin.Source.Read.After(u.Preset.Date.Time)
			if !own && !preset {
				t.Errorf("%s: %v is from %+v", u.Preset.Name, line, origin)
			}
		}
	}
	for _, p := range presets {
		if p.Date.IsZero() || p.About == "" || len(p.Unknown) == 0 || !strings.Contains(p.YAML(), "version: 1") {
			t.Errorf("%s lacks a date, what it is for, what is not known or its text: %+v", p.Name, p)
		}
		if p.SupersededBy != nil &&
			!slices.ContainsFunc(presets, func(other costs.Preset) bool { return other.Name == *p.SupersededBy }) {
			t.Errorf("%s is superseded by %s, which does not exist", p.Name, *p.SupersededBy)
		}
		for _, v := range p.Variants {
			if v.About == "" {
				t.Errorf("variant %s of %s does not say what it is for", v.Name, p.Name)
			}
		}
		for _, s := range p.Sources {
			if line := strings.TrimPrefix(s.Lines, "budgets."); line != s.Lines &&
				!strings.Contains(p.YAML(), "{name: "+strings.TrimSuffix(line, ".limit")) {
				t.Errorf("%s has a source for %s, which it does not have", p.Name, s.Lines)
			}
		}
	}
}

// The costs of the shipped file and of the youtube presets equal those of the
// shared list of methods, if the file exists.
func TestYouTubeHasTheDocumentedCosts(t *testing.T) {
	legacy, now, shipped := use(t, uses["youtube/legacy"]), use(t, uses["youtube/2026-06"]), load(t)
	for _, row := range methods(t) {
		method := strings.TrimPrefix(row["method_id"], "youtube.")
		for table, want := range map[*costs.Table]string{legacy: row["cost_pre_2026_06"], now: row["cost_2026"],
			shipped: row["cost_pre_2026_06"]} {
			switch {
			case table != now && method == "videos.insert":
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
		{Account: "a", Name: "youtube-day", Limit: 10000,
			Window: quota.Daily(time.UTC).At(6 * time.Hour).WithMargin(time.Minute),
			Except: []string{"search.list", "videos.insert", "videos.batchGetStats"},
			Floor:  map[string]quota.Units{"IN": 500}, FloorUntil: 2 * time.Hour},
		{Account: "a", Name: "youtube-search", Limit: 6, Window: day, Methods: []string{"search.list"}},
		{Account: "a", Name: "youtube-upload", Limit: 100, Window: day, Measure: quota.Calls,
			Methods: []string{"videos.insert"}},
		{Account: "a", Name: "youtube-stats", Limit: 10000, Window: day, Measure: quota.Calls,
			Methods: []string{"videos.batchGetStats"}},
		{Account: "a", Name: "all", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	sameWindow := cmp.Comparer(func(a, b quota.Window) bool {
		return a.String() == b.String() && (a.Kind() != engine.Calendar || a.Day(noon) == b.Day(noon))
	})
	if diff := cmp.Diff(want, u.Budgets, sameWindow); diff != "" {
		t.Error(diff)
	}
	if got := u.ResetWindow.Day(noon); !got.Opens.Equal(time.Date(2026, 11, 21, 8, 1, 0, 0, time.UTC)) {
		t.Errorf("the upstream's day opens at %s", got.Opens)
	}
	if u.Name != "mine" || u.Feedback != "google" || u.Variant != "" || !slices.Equal(u.Hosts, []string{"localhost"}) ||
		u.NotModified("playlists.insert") != 0 {
		t.Errorf("%+v", u)
	}
	if call, err := table.Call("", "captions.download"); err != nil || call.Units != 200 {
		t.Errorf("a cost of the file's own: %+v, %v", call, err)
	}
	for line, want := range map[string]string{
		"costs search.list": "costs.yaml:8", "costs videos.list": "preset youtube/2026-06", "hosts": "costs.yaml:5",
		"api":                          "preset youtube/2026-06",
		"budgets youtube-search limit": "costs.yaml:10", "budgets youtube-search window": "preset youtube/2026-06",
		"budgets youtube-search methods": "preset youtube/2026-06", "budgets all limit": "costs.yaml:11",
		"routes": "default",
	} {
		if got := u.Origin(strings.Fields(line)...).String(); got != want {
			t.Errorf("%s is from %s; want %s", line, got, want)
		}
	}
}

func TestTooManyCoveragesAreRefused(t *testing.T) {
	floors := []string{}
	for i := range quota.MaxCoverages {
		floors = append(floors, fmt.Sprintf("%c%c: 1", 'A'+i/26, 'A'+i%26))
	}
	_, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 1000, window: 24h, floor: {"+
			strings.Join(floors, ", ")+"}}]\n"))
	if err == nil || !strings.Contains(err.Error(),
		`4:11: the budgets of account "a" cover more than 64 different sets of calls, floors included: remove some`) {
		t.Error(err)
	}
}

func TestANotModifiedAnswerCostsAtMostTheFullCost(t *testing.T) {
	for lines, want := range map[string][2]quota.Units{"": {3, 10}, "not_modified_units: 0": {0, 0},
		"not_modified_units: 5": {3, 5}} {
		u := use(t, lines+"\ncosts: {a: 3, b: 10}\nbudgets: [{name: all, limit: 10, window: 1h}]").Upstreams()[0]
		if got := [2]quota.Units{u.NotModified("a"), u.NotModified("b")}; got != want {
			t.Errorf("%q: a 304 costs %v; want %v", lines, got, want)
		}
		if u.Feedback != "generic" {
			t.Errorf("feedback is %s", u.Feedback)
		}
	}
}
