package web

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// TestForecastThatDidNotComeTrue: when calls had stopped before a budget ran
// out, the page said at that time that it is spent, and that the schedule's
// first call was refused some time ago.
func TestForecastThatDidNotComeTrue(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	over, ahead := now.Add(-time.Minute), now.Add(time.Minute)
	for _, c := range []struct {
		used       int64
		out        *time.Time
		runs, plan bool
	}{{9, &over, false, false}, {9, &ahead, true, true}, {10, &over, true, false}, {9, nil, false, false}} {
		b := &usage.BudgetReport{Used: quota.Units(c.used), Limit: 10}
		addWhole(b, &usage.BudgetReport{RunsOutAt: c.out}, now)
		one := &simulated{out: c.out}
		one.add(b, now)
		if runs, plan := b.RunsOutAt != nil, b.PlanOutAt != nil; runs != c.runs || plan != c.plan {
			t.Errorf("%d of 10 used, out at %v: shown %t by its pace, %t by the schedule", c.used, c.out, runs, plan)
		}
	}
}
