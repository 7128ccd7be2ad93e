package costs_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestListHasTheOriginOfEachLine checks a file that overrides lines of a
// preset, as JSON, which programs read.
func TestListHasTheOriginOfEachLine(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
upstream: youtube
account: a
preset: youtube/2026-06
costs: {captions.download: 250}
budgets: [{name: youtube-day, limit: 9500}]
when_ledger_down: {default: {allow: 7}}
`))
	if err != nil {
		t.Fatal(err)
	}
	list := table.List()
	text := func(v any) string {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, m := range list.Methods {
		if m.Method == "captions.download" &&
			text(m) != `{"account":"a","method":"captions.download","units":250,"amounts":[],"by":null,`+
				`"not_modified_units":250,"budgets":["youtube-day"],`+
				`"from":{"file":"costs.yaml","line":5,"preset":null,"document":null,"read":null}}` {
			t.Errorf("a method of the file: %s", text(m))
		}
	}
	for _, b := range list.Budgets {
		if b.Name == "youtube-day" && (b.Origins() != "costs.yaml:6, preset youtube/2026-06" || b.Limit != 9500) {
			t.Errorf("a budget whose limit is the file's: %s", text(b))
		}
	}
	if got := text(list.Down); got != `[{"account":"a","methods":[],"lanes":[],"jobs":[],"regions":[],"allow":7,`+
		`"from":{"file":"costs.yaml","line":7,"preset":null,"document":null,"read":null}}]` {
		t.Errorf("when_ledger_down: %s", got)
	}
	if p := list.Presets[0]; p.Name != "youtube/2026-06" || p.Variant != nil || p.Date.String() != "2026-11-20" {
		t.Errorf("the preset: %s", text(p))
	}
}

// TestNamesThatOnlyABudgetHasAreKnown: lanes and regions that only a budget or
// a floor names are known too.
func TestNamesThatOnlyABudgetHasAreKnown(t *testing.T) {
	table := parse(t,
		"version: 1\nupstream: u\naccount: p\ncosts: {m: 1}\nbudgets: [{name: a, limit: 9, window: 1h, lanes: "+
			"[cron, nightly], regions: [IN]}, {name: b, limit: 9, window: 1h, floor: {BR: 2}}]\n")
	if got, want := table.Lanes(), []string{"cron", "backfill", "manual", "nightly"}; !slices.Equal(got, want) {
		t.Errorf("lanes %q; want %q", got, want)
	}
	if got, want := table.Regions(), []string{"IN", "BR"}; !slices.Equal(got, want) {
		t.Errorf("regions %q; want %q", got, want)
	}
}
