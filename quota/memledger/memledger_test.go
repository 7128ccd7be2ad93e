package memledger_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(_ testing.TB, now func() time.Time) quota.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
}

// TestMemory holds what is kept to what the documentation says, while entries come
// and when they have left, with jobs that never come back.
func TestMemory(t *testing.T) {
	const n = 50_000
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := memledger.Open(&memledger.Options{Now: clock.Now})
	charges := []*quota.Charge{{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)}}
	spend := func(i int) {
		batch := &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "videos.list", Units: 1, Charges: charges,
			Caller: quota.Caller{Job: fmt.Sprint("job ", i/1000)}}}}
		if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	before := heap()
	for i := range n {
		spend(i)
	}
	if each := float64(heap()-before) / n; each > 52 {
		t.Errorf("%.0f bytes an entry; want 52 at most", each)
	}
	clock.Add(72 * time.Hour)
	for i := range n / 32 { // each drops up to 64
		spend(n + i)
	}
	if left := heap() - before; left > 5*n {
		t.Errorf("%d bytes when all but the last %d have left", left, n/32)
	}
	runtime.KeepAlive(l)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
