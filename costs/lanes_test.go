package costs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

const lanesTable = "version: 1\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: 9, window: 1h}]\n"

// TestALaneHasTheHighestOfItsPriorities: the highest of an account's documents
// counts, and lanes without one have 0.
func TestALaneHasTheHighestOfItsPriorities(t *testing.T) {
	other := strings.NewReplacer("version: 1", "version: 1\nupstream: other", "{m: 1}", "{n: 1}", "name: all",
		"name: rest").Replace(lanesTable)
	third := strings.NewReplacer("account: p", "account: q").Replace(lanesTable)
	table := parse(t, lanesTable+"lanes: {cron: {priority: 2}, backfill: {priority: 0}}\n---\n"+
		other+"lanes: {nightly: {priority: 100}, cron: {priority: 7}}\n---\n"+third)
	for account, lanes := range map[string]map[string]int{
		"p": {"cron": 7, "backfill": 0, "nightly": 100, "manual": 0, "": 0},
		"q": {"cron": 0},
	} {
		for lane, want := range lanes {
			if got := table.Priority(account, lane); got != want {
				t.Errorf("%s of %s has %d; want %d", lane, account, got, want)
			}
		}
	}
	if got, want := table.Lanes(), []string{"cron", "backfill", "manual", "nightly"}; !slices.Equal(got, want) {
		t.Errorf("lanes %q; want %q", got, want)
	}
	isListed := func(s costs.Setting) bool {
		return s.Line == "lanes" && s.Value == "cron: priority 2" && s.From.Line == 5
	}
	if settings := table.List().Settings; !slices.ContainsFunc(settings, isListed) {
		t.Errorf("the list has %+v; want the priority of cron, and its line", settings)
	}
}

func TestMistakesInLanesAreReported(t *testing.T) {
	mistaken(t, lanesTable, map[string]string{
		"lanes: {cron: {priority: 101}}":       "5:26: priority is 101: write an integer from 0 to 100",
		"lanes: {cron: {prio: 1, pace: true}}": `5:16: unknown key "prio": write one of priority`,
		"lanes: {cron: {}}":                    "5:15: nothing is said of the lane: write priority: 1 or pace: true",
		"lanes: {cron: 2}":                     "5:15: cron is 2: write a map",
		"lanes: {}": "5:8: no lane: write one, such as {cron: {priority: 1}}, or " +
			"remove the key",
		"lanes: [cron]": "5:8: lanes is a list: write a map",
	}, "")
}

func TestPacedLanesAreThoseOfTheirAccount(t *testing.T) {
	const document = "version: 1\naccount: %s\nupstream: %s\nlanes: {backfill: {pace: %v}, cron: {priority: " +
		"1}}\ncosts: {get: 1}\nbudgets: [{name: all, limit: 9, window: 24h}]\n"
	table := parse(t, fmt.Sprintf(document, "a", "a", true)+"---\n"+fmt.Sprintf(document, "b", "b", false))
	paced := table.Paced()
	for lane, want := range map[[2]string]bool{{"a", "backfill"}: true, {"a", "cron"}: false,
		{"b", "backfill"}: false} {
		if got := paced(lane[0], lane[1]); got != want {
			t.Errorf("%v: %v; want %v", lane, got, want)
		}
	}
	if parse(t, fmt.Sprintf(document, "a", "a", false)).Paced() != nil {
		t.Error("lanes are paced that are not said to be")
	}
}
