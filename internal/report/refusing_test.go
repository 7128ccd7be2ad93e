package report_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
)

// TestNoForecastWhileRefusing: of a budget that refuses calls, status forecast
// the first refusal.
func TestNoForecastWhileRefusing(t *testing.T) {
	c := open(t)
	refuse(t, c)
	found, err := usage.Status(t.Context(), c.Guard())
	if err != nil {
		t.Fatal(err)
	}
	refusing, err := report.Refusing(t.Context(), c, found, found[0].At)
	if err != nil || len(refusing) != 1 {
		t.Fatalf("%v, %v; want one", refusing, err)
	}
	soon := time.Now().Add(time.Minute)
	refuses, other := usage.NewBudgetReport(&found[0]),
		&usage.BudgetReport{Account: "p", Name: "other", PlanOutAt: &soon, RunsOutAt: &soon}
	refuses.PlanOutAt, refuses.RunsOutAt = &soon, &soon
	report.DropForecasts([]*usage.BudgetReport{refuses, other}, refusing)
	if refuses.PlanOutAt != nil || refuses.RunsOutAt != nil || other.PlanOutAt == nil || other.RunsOutAt == nil {
		t.Errorf("%v and %v of a budget that refuses, %v and %v of another one", refuses.PlanOutAt, refuses.RunsOutAt,
			other.PlanOutAt, other.RunsOutAt)
	}
}
