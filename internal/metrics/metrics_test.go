package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// scrape returns the samples of collectors, as Prometheus reads them.
func scrape(t testing.TB, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v: %s", w.Code, err, text)
	}
	var samples strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			samples.WriteString(line)
		}
	}
	return samples.String()
}

// expect fails unless every sample is in a scrape.
func expect(t *testing.T, text string, samples ...string) {
	t.Helper()
	for _, sample := range samples {
		if !strings.Contains("\n"+text, "\n"+sample+"\n") {
			t.Errorf("no sample %s in:\n%s", sample, text)
		}
	}
}

func newGuard(t testing.TB, ledger quota.Ledger, budgets ...quota.Budget) *quota.Guard {
	t.Helper()
	guard, err := quota.NewGuard(ledger, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func call(method string, units quota.Units) quota.Call {
	return quota.Call{Account: "a", Method: method, Units: units,
		Caller: quota.Caller{Lane: "cron", Job: "j", Region: "US"}}
}

// TestDecisionsAreCounted: each decision counts once in the budgets it is
// about, a refusal that the guard remembers and a batch too, and the gauges are
// the ledger's.
func TestDecisionsAreCounted(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	timed := metrics.NewLedger(memledger.Open(&memledger.Options{Now: func() time.Time { return now }}))
	guard := newGuard(t, timed,
		quota.Budget{Account: "a", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)},
		quota.Budget{Account: "a", Name: "calls", Limit: 50, Window: quota.Sliding(time.Hour), Measure: quota.Calls,
			Methods: []string{"list"}})
	c := metrics.New(guard, &metrics.Options{Methods: []string{"list", "search"}, Ledger: timed})
	ctx := t.Context()
	spend := func(call quota.Call, want error) {
		t.Helper()
		if _, err := guard.Spend(ctx, call); !errors.Is(err, want) {
			t.Fatalf("%v; want %v", err, want)
		}
	}
	spend(call("list", 30), nil)
	spend(call("search", 50), nil)
	if _, err := guard.SpendTogether(ctx, call("list", 5), 3, 0); err != nil {
		t.Fatal(err)
	}
	spend(call("search", 50), quota.ErrRefused)
	spend(call("search", 50), quota.ErrRefused)
	spend(call("search", 101), quota.ErrNeverFits)
	spend(call("secret-of-a-caller", 1), nil)
	if err := guard.Cool(ctx, quota.Cooldown{Account: "a", Budget: "calls", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	spend(call("list", 1), quota.ErrRefused)
	expect(t, scrape(t, c),
		`ration_decisions_total{account="a",budget="day",lane="cron",method="list",result="granted"} 4`,
		`ration_decisions_total{account="a",budget="calls",lane="cron",method="list",result="granted"} 4`,
		`ration_decisions_total{account="a",budget="day",lane="cron",method="search",result="granted"} 1`,
		`ration_decisions_total{account="a",budget="day",lane="cron",method="search",result="spent"} 2`,
		`ration_decisions_total{account="a",budget="day",lane="cron",method="search",result="never_fits"} 1`,
		`ration_decisions_total{account="a",budget="calls",lane="cron",method="list",result="cooldown"} 1`,
		`ration_decisions_total{account="a",budget="day",lane="cron",method="other",result="granted"} 1`,
		`ration_units_total{account="a",budget="day",lane="cron",method="list"} 45`,
		`ration_units_total{account="a",budget="calls",lane="cron",method="list"} 4`,
		`ration_units_total{account="a",budget="day",lane="cron",method="search"} 50`,
		`ration_budget_limit_units{account="a",budget="day"} 100`,
		`ration_budget_used_units{account="a",budget="day"} 96`,
		`ration_budget_remaining_units{account="a",budget="day"} 4`,
		`ration_budget_used_units{account="a",budget="calls"} 4`,
		`ration_budget_next_free_timestamp_seconds{account="a",budget="calls"} 1.8000036e+09`,
		`ration_cooldown_until_timestamp_seconds{account="a",budget="calls"} 1.80000006e+09`,
		`ration_ledger_duration_seconds_count{op="append",result="ok"} 5`)
}

// TestSpentIsTheLedgers: of 9,500 units that all processes had spent, a scrape
// had those of its own process.
func TestSpentIsTheLedgers(t *testing.T) {
	log := memledger.Open(nil)
	day := quota.Budget{Account: "a", Name: "day", Limit: 10_000, Window: quota.Sliding(24 * time.Hour)}
	c := metrics.New(newGuard(t, log, day), &metrics.Options{Methods: []string{"list"}})
	other := newGuard(t, log, day)
	for range 2 {
		if _, err := other.Spend(t.Context(), call("list", 30)); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.RecordRefusal(t.Context(),
		&quota.RefusedError{Account: "a", Budget: "day", Method: "list"}); err != nil {
		t.Fatal(err)
	}
	if err := other.Note(t.Context(), quota.Note{Call: call("a remark", 0)}); err != nil {
		t.Fatal(err)
	}
	pass := engine.ClaimRequest{Name: "a pass", Hold: time.Minute}
	if _, err := other.Account("a").Claim(t.Context(), pass); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, c)
	expect(t, text, `ration_spent_units{account="a",job="j",lane="cron",method="list"} 60`,
		`ration_spent_calls{account="a",job="j",lane="cron",method="list"} 2`)
	if n := strings.Count(text, "ration_spent_units"); n != 1 || !strings.Contains(text, "ration_build_info{") {
		t.Errorf("%d series of what was spent; want 1, and ration_build_info in\n%s", n, text)
	}
}

// TestAScrapeHasAllCooldowns: a scrape lacked the cooldown of an account
// without budgets, and one that ends before those of all its budgets.
func TestAScrapeHasAllCooldowns(t *testing.T) {
	guard := newGuard(t, memledger.Open(nil),
		quota.Budget{Account: "a", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)})
	c := metrics.New(guard, &metrics.Options{Accounts: []string{"a", "b"}})
	hour := time.Now().Add(time.Hour)
	for _, cooldown := range []quota.Cooldown{{Account: "a", Until: hour},
		{Account: "a", Budget: "day", Until: hour.Add(time.Hour)}, {Account: "b", Until: hour}} {
		if err := guard.Cool(t.Context(), cooldown); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []string{`account="a",budget=""`, `account="a",budget="day"`, `account="b",budget=""`} {
		if text := scrape(t, c); !strings.Contains(text, "ration_cooldown_until_timestamp_seconds{"+of+"}") {
			t.Errorf("no cooldown of %s in:\n%s", of, text)
		}
	}
}

// TestCallersAddNoSeries: callers choose methods, jobs, regions, lanes, keys
// and accounts, and the number of series does not depend on it.
func TestCallersAddNoSeries(t *testing.T) {
	for name, o := range map[string]*metrics.Options{"price table": {Methods: []string{"list"}}, "no table": nil} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, memledger.Open(nil), quota.Budget{Account: "a", Name: "day", Limit: quota.MaxLimit,
				Window: quota.Sliding(time.Hour)})
			c := metrics.New(guard, o)
			callOf := func(i int) quota.Call {
				n := fmt.Sprint(i)
				call := quota.Call{Account: "a", Method: "m" + n, Units: 1,
					Caller: quota.Caller{Lane: "l" + n, Job: "j" + n, Region: "r" + n}}
				if i%10 == 0 {
					call.Key = "k" + n
				}
				if i%100 == 1 {
					call.Account = "a" + n
				}
				if i < 4 {
					call.Method = []string{"m\xff", "m\xfe"}[i%2] // alike once they are printable
				}
				return call
			}
			for i := range 1000 {
				if _, err := guard.Spend(t.Context(), callOf(i)); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for worker := range 4 {
				wg.Go(func() {
					for i := 1000 + worker; i < 100_000; i += 4 {
						d := quota.Decision{Call: callOf(i), Count: 1, Budgets: []int{0}}
						if d.Call.Account != "a" {
							d.Budgets = nil
						}
						c.Observe(d)
					}
				})
			}
			wg.Wait()
			text := scrape(t, c)
			if n := strings.Count(text, "\n"); n > 4*metrics.MaxMethods+50 || o != nil && n > 50 {
				t.Errorf("%d samples", n)
			}
			if o != nil {
				expect(t, text, `ration_units_total{account="a",budget="day",lane="other",method="other"} 99000`,
					`ration_units_total{account="other",budget="",lane="other",method="other"} 1000`)
			}
		})
	}
}

// TestAWaitIsCountedOnce: a call that waited counts once, with its time.
func TestAWaitIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, memledger.Open(nil),
			quota.Budget{Account: "a", Name: "minute", Limit: 1, Window: quota.Sliding(time.Minute)})
		c := metrics.New(guard, nil)
		for range 3 {
			if _, err := guard.Wait(t.Context(), call("list", 1), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := guard.Wait(t.Context(), call("list", 1), time.Second); !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		expect(t, scrape(t, c),
			`ration_decisions_total{account="a",budget="minute",lane="cron",method="list",result="granted"} 3`,
			`ration_decisions_total{account="a",budget="minute",lane="cron",method="list",result="spent"} 1`,
			`ration_wait_seconds_sum{account="a"} 120`,
			`ration_wait_seconds_count{account="a"} 4`)
	})
}

// TestHostStatsAreShown: what the host knows of an account beside its log, and
// that its copy is failing if that is not known.
func TestHostStatsAreShown(t *testing.T) {
	guard := newGuard(t, memledger.Open(nil),
		quota.Budget{Account: "a", Name: "day", Limit: 100, Window: quota.Sliding(time.Hour)})
	stats := metrics.HostStats{Unrecorded: 7, Restorations: 2, Restored: 30}
	var failed error
	c := metrics.New(guard, &metrics.Options{Host: func(string) (metrics.HostStats, error) { return stats, failed }})
	expect(t, scrape(t, c), `ration_unrecorded_units{account="a"} 7`, `ration_replica_failing{account="a"} 0`,
		`ration_restorations_total{account="a"} 2`, `ration_restored_records_total{account="a"} 30`)
	failed = errors.New("no space left on device")
	text := scrape(t, c)
	if expect(t, text, `ration_replica_failing{account="a"} 1`); strings.Contains(text, "ration_unrecorded_units") {
		t.Errorf("units that are not known:\n%s", text)
	}
}

// TestPassesAreCountedByRegionAndOutcome: passes count by region and outcome.
func TestPassesAreCountedByRegionAndOutcome(t *testing.T) {
	p := metrics.NewPasses()
	p.Ended("US", "complete", 7, time.Second)
	p.Ended("US", "complete", 5, time.Second)
	p.Ended("DE", "stopped", 0, time.Minute)
	expect(t, scrape(t, p),
		`ration_pass_runs_total{outcome="complete",region="US"} 2`,
		`ration_pass_runs_total{outcome="stopped",region="DE"} 1`,
		`ration_pass_units_total{region="US"} 12`,
		`ration_pass_duration_seconds_sum{outcome="stopped"} 60`)
}

// BenchmarkSpend compares a decision on the fastest ledger alone, with a
// Collector, and with a timed ledger too. They take turns, and the fastest turn
// of each counts, so that other programs do not matter: "xcollected" and
// "xtimed" are the ratios.
func BenchmarkSpend(b *testing.B) {
	const turn = 500
	ctx, c := context.Background(), call("list", 1)
	var guards [3]*quota.Guard
	for i := range guards {
		var ledger quota.Ledger = memledger.Open(nil)
		o := &metrics.Options{Methods: []string{"list"}}
		if i == 2 {
			o.Ledger = metrics.NewLedger(ledger)
			ledger = o.Ledger
		}
		guards[i] = newGuard(b, ledger,
			quota.Budget{Account: "a", Name: "day", Limit: quota.MaxLimit,
				Window: quota.Sliding(10 * time.Millisecond)},
			quota.Budget{Account: "a", Name: "hour", Limit: quota.MaxLimit,
				Window: quota.Sliding(20 * time.Millisecond)})
		if i > 0 {
			metrics.New(guards[i], o)
		}
	}
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	for b.Loop() {
		for i, guard := range guards {
			began := time.Now()
			for range turn {
				if _, err := guard.Spend(ctx, c); err != nil {
					b.Fatal(err)
				}
			}
			best[i] = min(best[i], time.Since(began))
		}
	}
	b.ReportMetric(float64(best[0].Nanoseconds())/turn, "ns/alone")
	b.ReportMetric(float64(best[1])/float64(best[0]), "xcollected")
	b.ReportMetric(float64(best[2])/float64(best[0]), "xtimed")
}
