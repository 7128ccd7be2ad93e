package plan_test

import (
	"testing"

	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
)

// TestBudgetsOfOneName: two accounts with a budget of one name were two rows
// that looked alike.
func TestBudgetsOfOneName(t *testing.T) {
	planned, replayed := &plan.Report{}, &plan.ReplayReport{}
	for _, b := range []quota.Budget{{Account: "a", Name: "hour"}, {Account: "b", Name: "hour"}, {Account: "b", Name: "day"}} {
		planned.Budgets = append(planned.Budgets, plan.BudgetReport{Budget: b})
		replayed.Budgets = append(replayed.Budgets, plan.ReplayedBudget{Budget: b})
	}
	for i, want := range []string{"hour of a", "hour of b", "day"} {
		b := &planned.Budgets[i].Budget
		if name, again := planned.Name(b), replayed.Name(b); name != want || again != want {
			t.Errorf("%s in a plan, %s in a replay; want %s", name, again, want)
		}
	}
}
