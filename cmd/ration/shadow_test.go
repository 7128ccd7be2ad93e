package main

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/jobs/status"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/usage"
)

// shadowCall is a call that an enforced budget admitted.
type shadowCall struct {
	at   time.Time
	call quota.Call
}

// TestShadowCountsWhatItWouldRefuse: calls go to a guard whose second budget is a
// shadow. It refuses none of them, and what it would have refused in its window is
// what a guard refuses that has it as a budget.
func TestShadowCountsWhatItWouldRefuse(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, window := range map[string]quota.Window{
		"sliding": quota.Sliding(6 * time.Hour), "day": quota.Daily(time.UTC), "longer than all others": quota.Sliding(72 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, noon, func(t *testing.T, l quota.Ledger, clock *time.Time) {
				budgets := []quota.Budget{{Account: "p", Name: "real", Limit: 300, Window: quota.Sliding(time.Hour)},
					{Account: "p", Name: "shadow", Limit: 400, Window: window, Shadow: true, Methods: []string{"m"}}}
				guard, err := quota.NewGuard(l, budgets, nil)
				if err != nil {
					t.Fatal(err)
				}
				calls := spendOnShadow(t, guard, clock)
				got, err := plan.ReplayShadow(t.Context(), l, plan.ReplayInput{Budgets: budgets}, 1, *clock)
				if err != nil {
					t.Fatal(err)
				}
				budgets[0].Shadow, budgets[1].Shadow = true, false
				if want := refusedInWindow(t, budgets, calls, *clock); got.Refused != want || want == 0 {
					t.Errorf("the shadow would have refused %d calls, the budget refused %d", got.Refused, want)
				}
				balances, err := guard.Balances(t.Context())
				if err != nil || balances[1].Used <= 400 || balances[1].Remaining != 0 {
					t.Errorf("%+v, %v; want a balance above the limit", balances[1], err)
				}
			})
		})
	}
}

// spendOnShadow spends for days, and returns what was granted.
func spendOnShadow(t *testing.T, guard *quota.Guard, clock *time.Time) (calls []shadowCall) {
	draw := rand.New(rand.NewPCG(12, 7))
	for range 400 {
		*clock = clock.Add(time.Duration(draw.Int64N(int64(30 * time.Minute)))).Truncate(time.Microsecond)
		call := quota.Call{Account: "p", Method: []string{"m", "m", "n"}[draw.IntN(3)], Units: quota.Units(1 + draw.IntN(60))}
		_, err := guard.Spend(t.Context(), call)
		refused, isRefused := errors.AsType[*quota.RefusedError](err)
		switch {
		case isRefused && refused.Budget == "real":
		case err != nil:
			t.Fatalf("%v; want no refusal by the shadow", err)
		default:
			calls = append(calls, shadowCall{*clock, call})
		}
	}
	return calls
}

// refusedInWindow returns how many of the calls the second budget refuses from the
// beginning of its window on; what was called before is spent.
func refusedInWindow(t *testing.T, budgets []quota.Budget, calls []shadowCall, end time.Time) (refused int) {
	clock := end
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: func() time.Time { return clock }}), budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	balances, err := guard.Balances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := balances[1].Since
	for _, c := range calls {
		clock = c.at
		if c.at.Before(since) {
			err = guard.Note(t.Context(), quota.Note{Call: c.call, Calls: 1})
		} else if _, err = guard.Spend(t.Context(), c.call); errors.Is(err, quota.ErrRefused) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return refused
}

// TestAShadowRefusesByTheSchedule: status said of a shadow that it refuses calls.
func TestAShadowRefusesByTheSchedule(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pace, over := 20.0, int64(3600)
	b := &usage.BudgetReport{Name: "tried", Measure: "units", PlanOutAt: new(now.Add(time.Hour))}
	for _, paced := range []bool{false, true} {
		if paced {
			b.RunsOutAt, b.PaceHour, b.PaceOver = new(now.Add(2*time.Hour)), &pace, &over
		}
		for shadow, want := range map[bool]string{true: " would refuse its first call at ", false: " refuses its first call at "} {
			b.Shadow = shadow
			if text := status.Forecast(b, now); !strings.Contains(text, want) {
				t.Errorf("%q; want %q", text, want)
			}
		}
	}
}
