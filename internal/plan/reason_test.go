package plan_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/quota"
)

func TestAMissingSuggestionHasAReason(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	day := quota.Sliding(24 * time.Hour)
	for name, c := range map[string]struct {
		regions string
		budgets []quota.Budget
		state   plan.State
		want    string
	}{
		"the ledger alone": {"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 4}}]\nregions: {US: {}}\n",
			[]quota.Budget{{Name: "all", Limit: 5, Window: day}},
			held(from.Add(-23*time.Hour), 4),
			"from an empty ledger the schedule fits as it is; only what the ledger holds now is in the way, with " +
				"room again at 2026-11-20T01:30:00Z"},
		"a cooldown": {"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 4}}]\nregions: {US: {}}\n",
			[]quota.Budget{{Name: "all", Limit: 5, Window: day}},
			plan.State{Cooldowns: []quota.Cooldown{{Account: "my-project", Until: from.Add(6 * time.Hour),
				Reason: "maintenance"}}},
			"my-project is in cooldown (maintenance), videos.list must wait; try again at 2026-11-20T06:30:00Z (in " +
				"5h30m); plan --from then"},
		"one pass": {"schedule: '0 1 * * *'\nfetch: [categories, {search: {queries: [a, b, c]}}]\nregions: {US: " +
			"{fetch: [categories]}, IN: {}}\n",
			[]quota.Budget{{Name: "first", Limit: 900, Window: day},
				{Name: "searches", Limit: 250, Window: day, Methods: []string{"search.list"}}}, plan.State{},
			"search:a of IN (search.list) never fits: one pass with one page a step needs 300 units of searches, " +
				"whose limit is 250; fetch less there, or raise the limit"},
		"two regions at once": {"schedule: '0 1 1 * *'\nfetch: [{trending: {pages: 2}}]\nregions: {US: {}, IN: {}, " +
			"BR: {}}\n",
			[]quota.Budget{{Name: "all", Limit: 2, Window: quota.Sliding(48 * time.Hour)}}, plan.State{},
			"trending of US (videos.list) never fits: even with the fewest ticks and one page a step, all may need " +
				"3 units, and its limit is 2; fetch in fewer regions, or raise the limit"},
		"floors": {"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 2}}]\nregions: {US: {}, IN: {}}\n",
			[]quota.Budget{{Name: "all", Limit: 10, Window: quota.Monthly(time.UTC),
				Floor: map[string]quota.Units{"BR": 9}}}, plan.State{},
			"trending of US (videos.list) never fits: even with the fewest ticks and one page a step, all may need " +
				"15 units, the floors of other regions included, and its limit is 10; fetch in fewer regions, or " +
				"raise the limit"},
		"an entry of long ago": {"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 2}}]\nregions: {US: {}}\n",
			[]quota.Budget{{Name: "month", Limit: 30, Window: quota.Monthly(time.UTC)},
				{Name: "all", Limit: 1, Window: day}}, held(from.Add(-99*time.Hour), 30),
			"trending of US (videos.list) never fits: at 2026-11-23T01:00:00Z month still holds 30 of 30 units from " +
				"before; plan --from later, or --fresh"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.budgets {
				c.budgets[i].Account = "my-project"
			}
			in := &plan.Input{Regions: parse(t, c.regions), Budgets: c.budgets, State: c.state, From: from,
				To: from.AddDate(0, 0, 14)}
			report := play(t, in)
			s, err := plan.Suggest(t.Context(), in, report)
			if err != nil || s.Report != nil || s.Changes != nil || s.Reason != c.want {
				t.Errorf("%v, %+v; want\n%s", err, s, c.want)
			}
		})
	}
}

// held is what a ledger holds: one call.
func held(at time.Time, units quota.Units) plan.State {
	return stateOf(quota.Entry{At: at, Method: "videos.list", Units: units, Calls: 1,
		Caller: quota.Caller{Region: "US"}})
}

func stateOf(entries ...quota.Entry) (s plan.State) {
	for i := range entries {
		s.Add("my-project", &entries[i])
	}
	return s
}

// TestASuggestionsYAMLHasTheOldValues: shared values are written once, and
// comments give the old value of each change.
func TestASuggestionsYAMLHasTheOldValues(t *testing.T) {
	s := &plan.Suggestion{
		Regions: parse(t,
			"schedule: '0 */6 * * *'\nfetch: [{trending: {pages: 3}}, categories, {search: {queries: [music, \"a: "+
				"b\"], pages: 2}}]\n"+
				"regions: {US: {}, IN: {schedule: '5 */8 * * *'}, BR: {fetch: [{channels: {pages: 1}}, {search: "+
				"{queries: [a], pages: 1}}, {search: {queries: [b], pages: 2}}]}}\n"),
		Changes: []plan.Change{{Region: "IN", What: "schedule", From: "@hourly", To: "5 */8 * * *"},
			{Region: "BR", What: "search:a", From: "4", To: "1"},
			{Region: "BR", What: "schedule", From: "@daily", To: "0 */6 * * *"}},
	}
	want := `schedule: "0 */6 * * *"
fetch:
  - trending: {pages: 3}
  - categories
  - search: {queries: ["music", "a: b"], pages: 2}
regions:
  US: {}
  IN: {schedule: "5 */8 * * *"}  # was "@hourly"
  BR: {fetch: [{channels: {pages: 1}}, {search: {queries: ["a"], pages: 1}}, {search: {queries: ["b"], pages: 2}}]}  # was 4 pages of "search:a", "@daily"
`
	if got := s.YAML(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	alone := &plan.Suggestion{Regions: s.Regions[2:]}
	want = "regions:\n  BR: {schedule: \"0 */6 * * *\", fetch: [{channels: {pages: 1}}, {search: {queries: [\"a\"], " +
		"pages: 1}}, {search: {queries: [\"b\"], pages: 2}}]}\n"
	if got := alone.YAML(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
