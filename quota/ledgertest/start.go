package ledgertest

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Start is a benchmark: the first decision of a process without a replica
// beside logs of lone calls. It reports the memory that the process then holds.
// fill makes a log of batches, which are in order, and returns its ledger. The
// log may have any epoch.
func Start(b *testing.B, fill func(b *testing.B, account string, batches []engine.Batch) engine.Ledger) {
	for _, count := range []int{1, 10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			ledger := fill(b, "project", loneCalls(count))
			day := &engine.Budget{Name: "day", Limit: 1 << 40,
				Window: engine.Window{Kind: engine.Sliding, Length: (24 * time.Hour).Microseconds()}}
			request := &engine.Request{Labels: engine.Labels{Method: "list"},
				Amounts: engine.Amounts{Units: 1, Calls: 1},
				Budgets: []*engine.Budget{day}}
			before := heap()
			for b.Loop() {
				e := engine.New(ledger, nil)
				answers, err := e.Account("project").Spend(context.Background(), request)
				if err != nil || answers[0].Held[0].Used < int64(count) {
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

// loneCalls returns batches of one call each, of four processes in turn.
func loneCalls(count int) []engine.Batch {
	first, at := engine.NewClient()&^3, time.Now().Add(-time.Hour).UnixMicro()
	batches := make([]engine.Batch, count)
	for i := range batches {
		call := &engine.Record{Kind: engine.KindGrant, Amounts: engine.Amounts{Units: 1, Calls: 1},
			Labels: engine.Labels{Method: [2]string{"list", "search"}[i%2], Lane: "cron", Region: "US", Host: "host-1"}}
		id := engine.ID{Client: first + uint64(i%4), Seq: uint64(i/4 + 1)}
		batches[i] = engine.Batch{Position: uint64(i + 1), At: at + int64(i),
			Data: engine.Pack(id, []*engine.Record{call})}
	}
	return batches
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
