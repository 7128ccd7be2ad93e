//go:build unix

package journal_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

// turn is for how long BenchmarkRedis runs each of the two.
const turn = 100 * time.Millisecond

// BenchmarkRedis measures decisions of a real Redis with and without a journal,
// in turns, so that other load on the machine affects both. The budgets are
// those of the shipped costs.yaml for videos.list. In the last two, each tenth
// call is refused by a window that changes with every grant, so that the
// journal writes what it says. x-time and x-CPU are relative to the same
// without a journal; the CPU time is this process', of which Redis has none.
// Everything is a median of the rounds.
func BenchmarkRedis(b *testing.B) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		b.Fatal(err)
	}
	budgets := []quota.Budget{
		{Account: account, Name: "youtube", Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)},
		{Account: account, Name: "youtube-day", Limit: quota.MaxLimit, Window: quota.Daily(pacific)},
		{Account: account, Name: "full", Limit: 100, Window: quota.Sliding(time.Hour), Config: quota.Config{Name: "costs.yaml", Changed: time.Unix(1, 0)}},
	}
	var charges []*quota.Charge
	for i, coverage := range quota.Coverages(budgets) {
		charges = append(charges, &quota.Charge{Budget: budgets[i].Name, Coverage: coverage, Limit: budgets[i].Limit, Window: budgets[i].Window, Config: budgets[i].Config})
	}
	for _, load := range []load{
		{"alone", 1, charges[:2], nil},
		{"combined", 64, charges[:2], nil},
		{"alone refused", 1, charges[:2], charges},
		{"combined refused", 64, charges[:2], charges},
	} {
		b.Run(load.name, func(b *testing.B) {
			server := redistest.Start(b)
			open := func() quota.Ledger {
				l, err := redisledger.Open(server.URL(), nil)
				if err != nil {
					b.Fatal(err)
				}
				return l
			}
			bare, journaled := open(), quota.Ledger(journal.New(open(), b.TempDir(), &journal.Options{Budgets: budgets}))
			b.Cleanup(func() { _, _ = bare.Close(), journaled.Close() })
			full := []quota.Request{{Method: "videos.list", Units: budgets[2].Limit, Charges: charges[:2]}}
			if _, err := bare.Spend(context.Background(), &quota.Batch{Account: account, Requests: full}); err != nil {
				b.Fatal(err)
			}
			load.spend(b, journaled) // which opens it
			var time, cpu, xtime, xcpu, addedTime, addedCPU []float64
			for b.Loop() {
				t0, c0 := load.spend(b, bare)
				t1, c1 := load.spend(b, journaled)
				time, xtime, addedTime = append(time, t0), append(xtime, t1/t0), append(addedTime, t1-t0)
				cpu, xcpu, addedCPU = append(cpu, c0), append(xcpu, c1/c0), append(addedCPU, c1-c0)
			}
			b.ReportMetric(0, "ns/op")
			for unit, of := range map[string][]float64{"µs": time, "x-time": xtime, "added-µs": addedTime, "CPU-µs": cpu, "x-CPU": xcpu, "added-CPU-µs": addedCPU} {
				slices.Sort(of)
				b.ReportMetric(of[len(of)/2], unit)
			}
		})
	}
}

// load is the work of one turn: calls by several callers at once.
type load struct {
	name    string
	callers int
	charges []*quota.Charge
	refused []*quota.Charge // of each tenth call; nil if all are granted
}

// spend has the callers spend for one turn, and returns the microseconds of
// time and of this process' CPU for each decision.
func (load *load) spend(b *testing.B, l quota.Ledger) (micros, cpu float64) {
	caller := quota.Caller{Lane: "cron", Job: "trending", Region: "DE"}
	var running sync.WaitGroup
	counts := make([]int, load.callers)
	began, used := time.Now(), cpuTime(b)
	for i := range load.callers {
		running.Go(func() {
			for ; time.Since(began) < turn; counts[i]++ {
				charges, isRefused := load.charges, load.refused != nil && counts[i]%10 == 9
				if isRefused {
					charges = load.refused
				}
				requests := []quota.Request{{Method: "videos.list", Units: 1, Caller: caller, Charges: charges}}
				answers, err := l.Spend(context.Background(), &quota.Batch{Account: account, Requests: requests})
				if err != nil || (answers[0].Err != nil) != isRefused {
					b.Errorf("%v, %v; refused %v", err, answers, isRefused)
				}
			}
		})
	}
	running.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(time.Since(began)) / 1e3 / float64(total), float64(cpuTime(b)-used) / 1e3 / float64(total)
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
