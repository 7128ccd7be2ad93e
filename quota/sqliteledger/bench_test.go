package sqliteledger_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

func charge(name string, limit quota.Units, window quota.Window, methods ...string) *quota.Charge {
	return &quota.Charge{Budget: name, Coverage: quota.NewCoverage(quota.Coverage{Methods: methods}), Limit: limit, Window: window}
}

func one(units quota.Units, charges ...*quota.Charge) *quota.Batch {
	return &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "videos.list", Units: units, Charges: charges}}}
}

// BenchmarkSpend decides calls on one budget: by one goroutine or by 64, which
// share transactions.
func BenchmarkSpend(b *testing.B) {
	const full, empty = 1, quota.MaxLimit
	for _, bench := range []struct {
		name  string
		sync  sqliteledger.Sync
		limit quota.Units
		many  bool
	}{
		{"full/one", sqliteledger.Full, empty, false},
		{"full/64", sqliteledger.Full, empty, true},
		{"normal/one", sqliteledger.Normal, empty, false},
		{"normal/64", sqliteledger.Normal, empty, true},
		{"normal/one/refused", sqliteledger.Normal, full, false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := open(b, fresh(b), &sqliteledger.Options{Sync: bench.sync})
			day := charge("day", bench.limit, quota.Sliding(24*time.Hour))
			spend := func() {
				if _, err := l.Spend(b.Context(), one(1, day)); err != nil {
					b.Error(err)
				}
			}
			spend()
			b.ResetTimer()
			if !bench.many {
				for range b.N {
					spend()
				}
				return
			}
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					spend()
				}
			})
		})
	}
}
