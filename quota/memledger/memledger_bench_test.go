package memledger_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// fastClock returns a clock that advances by a second whenever it is read,
// so that entries leave a day's log while a benchmark runs. It is as slow
// as time.Now.
func fastClock() func() time.Time {
	var seconds atomic.Int64
	return func() time.Time {
		_ = time.Now()
		return time.Unix(seconds.Add(1), 0)
	}
}

func day(limit quota.Units) quota.Budget {
	return quota.Budget{Account: "my-project", Name: "day", Limit: limit, Window: quota.Sliding(24 * time.Hour)}
}

var cron = quota.Caller{Lane: "cron", Job: "trending", Region: "US"}

// spending returns a function that spends units of budgets and
// ignores refusals.
func spending(b *testing.B, l quota.Ledger, units quota.Units, budgets ...quota.Budget) func() {
	batch := &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "videos.list", Units: units, Caller: cron}}}
	for _, budget := range budgets {
		charge := &quota.Charge{Budget: budget.Name, Coverage: budget.Coverage(), Limit: budget.Limit, Window: budget.Window}
		for region, units := range budget.Floor {
			of := quota.NewCoverage(quota.Coverage{Regions: []string{region}})
			charge.Floors = append(charge.Floors, quota.Floor{Coverage: of, Units: units})
		}
		batch.Requests[0].Charges = append(batch.Requests[0].Charges, charge)
	}
	return func() {
		if _, err := l.Spend(b.Context(), batch); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSpend measures a decision of cost 1 on one sliding budget, and
// AllowN of golang.org/x/time/rate for comparison.
func BenchmarkSpend(b *testing.B) {
	for _, goroutines := range []int{0, 64} {
		b.Run(fmt.Sprint("goroutines=", max(1, goroutines)), func(b *testing.B) {
			limiter := rate.NewLimiter(1e12, 1e12)
			allow := func() { limiter.AllowN(time.Now(), 1) }
			l := memledger.Open(&memledger.Options{Now: fastClock()})
			b.ReportAllocs()
			ledgertest.Compare(b, ledgertest.Loop{Goroutines: goroutines, Do: allow},
				ledgertest.Loop{Goroutines: goroutines, Do: spending(b, l, 1, day(quota.MaxLimit))})
		})
	}
}

// BenchmarkGuardSpend measures the same through a Guard.
func BenchmarkGuardSpend(b *testing.B) {
	for _, goroutines := range []int{0, 64} {
		b.Run(fmt.Sprint("goroutines=", max(1, goroutines)), func(b *testing.B) {
			limiter := rate.NewLimiter(1e12, 1e12)
			allow := func() { limiter.AllowN(time.Now(), 1) }
			g, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: fastClock()}), []quota.Budget{day(quota.MaxLimit)}, nil)
			if err != nil {
				b.Fatal(err)
			}
			call := quota.Call{Account: "my-project", Method: "videos.list", Units: 1, Caller: cron}
			b.ReportAllocs()
			ledgertest.Compare(b, ledgertest.Loop{Goroutines: goroutines, Do: allow}, ledgertest.Loop{Goroutines: goroutines, Do: func() {
				if _, err := g.Spend(b.Context(), call); err != nil {
					b.Error(err)
				}
			}})
		})
	}
}

// BenchmarkLength measures decisions on a log of a million entries and on one
// of a thousand.
func BenchmarkLength(b *testing.B) {
	for _, bench := range []struct {
		name    string
		refused bool
		units   quota.Units
	}{{"granted/cost=1", false, 1}, {"granted/cost=100", false, 100}, {"refused/cost=1", true, 1}, {"refused/cost=100", true, 100}} {
		b.Run(bench.name, func(b *testing.B) {
			long := func(n int) ledgertest.Loop {
				at := time.Unix(0, 0)
				l := memledger.Open(&memledger.Options{Now: func() time.Time { return at }})
				window := quota.Sliding(time.Duration(n) * time.Second)
				fill := spending(b, l, 1, quota.Budget{Account: "my-project", Name: "all", Limit: quota.MaxLimit, Window: window})
				for range n {
					fill()
					at = at.Add(time.Second)
				}
				limit := quota.MaxLimit
				if bench.refused {
					limit = quota.Units(n)
				}
				spend := spending(b, l, bench.units, quota.Budget{Account: "my-project", Name: "all", Limit: limit, Window: window})
				return ledgertest.Loop{Do: func() {
					if !bench.refused {
						at = at.Add(time.Second)
					}
					spend()
				}}
			}
			ledgertest.Compare(b, long(1000), long(1_000_000))
		})
	}
}

// BenchmarkBudgets measures a call that one budget covers, three budgets, and
// one budget with eight floors.
func BenchmarkBudgets(b *testing.B) {
	all, search, calls := day(quota.MaxLimit), day(quota.MaxLimit), day(quota.MaxLimit)
	search.Name, search.Methods = "search", []string{"videos.list"}
	calls.Name, calls.Measure = "calls", quota.Calls
	hour, minute := day(quota.MaxLimit), day(quota.MaxLimit)
	hour.Name, hour.Window = "hour", quota.Sliding(time.Hour)
	minute.Name, minute.Window = "minute", quota.Sliding(time.Minute)
	floors := day(quota.MaxLimit)
	floors.Floor = map[string]quota.Units{"US": 1e6, "IN": 1e6, "BR": 1e6, "DE": 1e6, "FR": 1e6, "GB": 1e6, "CA": 1e6, "AU": 1e6}
	for name, budgets := range map[string][]quota.Budget{"coverages=3": {all, search, calls}, "windows=3": {all, hour, minute}, "floors=8": {floors}} {
		b.Run(name, func(b *testing.B) {
			ledgertest.Compare(b,
				ledgertest.Loop{Do: spending(b, memledger.Open(&memledger.Options{Now: fastClock()}), 1, all)},
				ledgertest.Loop{Do: spending(b, memledger.Open(&memledger.Options{Now: fastClock()}), 1, budgets...)})
		})
	}
}
