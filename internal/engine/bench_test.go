package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// benchmarkBudgets are like those of a costs.yaml, far from their limits.
func benchmarkBudgets() []*engine.Budget {
	search := sliding("search", 1<<40, time.Minute)
	search.Coverage = engine.Coverage{Methods: []string{"search"}}
	return []*engine.Budget{sliding("day", 1<<40, 24*time.Hour), sliding("hour", 1<<40, time.Hour), search}
}

func benchmarkRequest(budgets []*engine.Budget) *engine.Request {
	return &engine.Request{Labels: engine.Labels{Method: "list", Lane: "cron"},
		Amounts: engine.Amounts{Units: 1, Calls: 1}, Budgets: budgets}
}

// BenchmarkSpend is the cost of a decision in memory, of one caller and of 64.
func BenchmarkSpend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			a := engine.New(memledger.Open(nil), nil).Account(account)
			budgets := benchmarkBudgets()
			b.ReportAllocs()
			var wg sync.WaitGroup
			for caller := range callers {
				wg.Go(func() {
					request := benchmarkRequest(budgets)
					for i := caller; i < b.N; i += callers {
						answers, err := a.Spend(context.Background(), request)
						if err != nil || answers[0].Refusal != nil {
							b.Error(err, answers)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkReceive is the cost of a decision of a process that receives one
// batch of each of 15 others with each of its own.
func BenchmarkReceive(b *testing.B) {
	ledger := memledger.Open(nil)
	var accounts []*engine.Account
	for range 16 {
		accounts = append(accounts, engine.New(ledger, nil).Account(account))
	}
	request := benchmarkRequest(benchmarkBudgets())
	b.ReportAllocs()
	for i := range b.N {
		answers, err := accounts[i%16].Spend(context.Background(), request)
		if err != nil || answers[0].Refusal != nil {
			b.Fatal(err, answers)
		}
	}
}

// BenchmarkStart is the time in which a process without a replica decides its
// first call beside a log of some records, in batches of 1 and of 64. It
// reports what the process then holds.
func BenchmarkStart(b *testing.B) {
	for _, records := range []int{0, 10_000, 100_000, 1_000_000} {
		for _, size := range []int{1, 64} {
			b.Run(fmt.Sprintf("records=%d/batch=%d", records, size), func(b *testing.B) {
				ledger := memledger.Open(nil)
				fillLog(b, ledger, records, size)
				budgets := benchmarkBudgets()
				before := heap()
				for b.Loop() {
					e := engine.New(ledger, nil)
					answers, err := e.Account(account).Spend(context.Background(), benchmarkRequest(budgets))
					if err != nil || answers[0].Refusal != nil {
						b.Fatal(err, answers)
					}
					b.StopTimer()
					b.ReportMetric(float64(heap()-before)/1e6, "MB")
					runtime.KeepAlive(e)
					b.StartTimer()
				}
			})
		}
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fillLog appends records of several clients in batches of a size.
func fillLog(b *testing.B, ledger engine.Ledger, count, size int) {
	b.Helper()
	var clients [4]engine.ID
	for i := range clients {
		clients[i] = engine.ID{Client: engine.NewClient(), Seq: 1}
	}
	epoch := uint64(0)
	for n := 0; n < count; n += size {
		client := &clients[n/size%len(clients)]
		var records []*engine.Record
		for i := range min(size, count-n) {
			records = append(records, &engine.Record{Kind: engine.KindGrant,
				Labels:  engine.Labels{Method: [2]string{"list", "search"}[i%2], Lane: "cron", Region: "US"},
				Amounts: engine.Amounts{Units: 1, Calls: 1}})
		}
		append := &engine.Append{Known: engine.Known{Epoch: epoch}, NewEpoch: 7, Any: true, Count: len(records),
			Data: engine.Pack(*client, records), Bytes: 1}
		t, err := ledger.Append(context.Background(), account, append)
		if err != nil || !t.Appended {
			b.Fatal(err, t)
		}
		epoch, client.Seq = t.Epoch, client.Seq+uint64(len(records))
	}
}
