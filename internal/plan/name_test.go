package plan_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/quota"
)

// TestBudgetsOfOneName: two accounts with a budget of one name were two rows
// that looked alike.
func TestBudgetsOfOneName(t *testing.T) {
	planned, replayed := &plan.Report{}, &plan.ReplayReport{}
	for _, b := range []quota.Budget{{Account: "a", Name: "hour"}, {Account: "b", Name: "hour"},
		{Account: "b", Name: "day"}} {
		planned.Budgets = append(planned.Budgets, plan.BudgetReport{Budget: b})
		replayed.Budgets = append(replayed.Budgets, plan.ReplayedBudget{Budget: b})
	}
	for i, want := range []string{"hour of a", "hour of b", "day"} {
		b := &planned.Budgets[i].Budget
		if name, again := planned.Name(b), replayed.Name(b); name != want || again != want {
			t.Errorf("%s in a plan, %s in a replay; want %s", name, again, want)
		}
	}
	planned.Budgets[0].Over = true
	planned.Budgets[1].Budget.Shadow = true
	planned.Budgets[1].Refused = 2
	p := &plan.Planner{Report: planned}
	p.State.Cooldowns = []quota.Cooldown{{Account: "b", Budget: "hour"}}
	got := strings.Join(p.Remarks(), "\n")
	for _, want := range []string{"hour of b is in cooldown until ", "hour of b is a shadow; ",
		"late hour of a may be asked for "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in the remarks:\n%s", want, got)
		}
	}
}
