package plan_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// shadowCall is a call that an enforced budget admitted.
type shadowCall struct {
	at   time.Time
	call quota.Call
}

// TestShadowCountsWhatItWouldRefuse: calls go to a client whose second budget
// is a shadow. It refuses none of them, and what it would have refused in its
// window is what a guard refuses that has it as a budget.
func TestShadowCountsWhatItWouldRefuse(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, window := range map[string]string{"sliding": "6h", "day": "{day: UTC}", "longer than all others": "72h"} {
		t.Run(name, func(t *testing.T) {
			testledger.Each(t, noon, func(t *testing.T, l quota.Ledger, clock *time.Time) {
				c := openShadow(t, l, clock,
					"{name: real, limit: 300, window: 1h}, {name: shadow, limit: 400, window: "+window+
						", shadow: true, methods: [m]}")
				calls := spendOnShadow(t, c.Guard(), clock)
				got, err := plan.ClientShadow(t.Context(), c, 1, *clock)
				if err != nil {
					t.Fatal(err)
				}
				budgets := c.Table().Budgets()
				budgets[0].Shadow, budgets[1].Shadow = true, false
				want, units := refusedInWindow(t, budgets, calls, *clock)
				if got.Refused != want || got.RefusedUnits != units || want == 0 {
					t.Errorf("the shadow would have refused %d calls of %d units, the budget refused %d of %d",
						got.Refused, got.RefusedUnits, want, units)
				}
				balances, err := c.Guard().Balances(t.Context())
				if err != nil || balances[1].Used <= 400 || balances[1].Remaining != 0 {
					t.Errorf("%+v, %v; want a balance above the limit", balances[1], err)
				}
			})
		})
	}
}

// open opens a client of two methods, of 1 unit each, over a ledger.
func openShadow(t *testing.T, l quota.Ledger, clock *time.Time, budgets string) *client.Client {
	t.Helper()
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: p\ncosts: {m: 1, n: 1}\nbudgets: ["+budgets+"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(table, &client.Options{Opened: l, State: t.TempDir(), Replica: t.TempDir(),
		Now:    func() time.Time { return *clock },
		Getenv: func(string) string { return "" },
		Report: func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// spendOnShadow spends for days, and returns what was granted.
func spendOnShadow(t *testing.T, guard *quota.Guard, clock *time.Time) (calls []shadowCall) {
	draw := rand.New(rand.NewPCG(12, 7))
	for range 400 {
		*clock = clock.Add(time.Duration(draw.Int64N(int64(30 * time.Minute)))).Truncate(time.Microsecond)
		call := quota.Call{Account: "p", Method: []string{"m", "m", "n"}[draw.IntN(3)],
			Units: quota.Units(1 + draw.IntN(60))}
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

// refusedInWindow returns how many of the calls, and units, the second budget
// refuses from the beginning of its window on; what was called before is spent.
func refusedInWindow(t *testing.T, budgets []quota.Budget, calls []shadowCall, end time.Time) (refused int,
	units quota.Units) {
	clock := end
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: func() time.Time { return clock }}), budgets,
		nil)
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
			refused, units = refused+1, units+c.call.Units
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return refused, units
}

// TestTheCollectorShowsShadows: metrics showed nothing of shadows, or all
// budgets as shadows.
func TestTheCollectorShowsShadows(t *testing.T) {
	clock := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c := openShadow(t, memledger.Open(&memledger.Options{Now: func() time.Time { return clock }}), &clock,
		"{name: all, limit: 100, window: 24h}, {name: tried, limit: 2, window: 24h, shadow: true}")
	for range 5 {
		if _, err := c.Guard().Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 2}); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&plan.ShadowCollector{Client: c})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, sample := range family.GetMetric() {
			labels := sample.GetLabel()
			got[family.GetName()+" "+labels[0].GetValue()+" "+labels[1].GetValue()] = sample.GetGauge().GetValue()
		}
	}
	if want := map[string]float64{"ration_budget_would_refuse_calls p tried": 4,
		"ration_budget_would_refuse_units p tried": 8}; !maps.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}
