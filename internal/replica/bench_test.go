package replica_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota/memledger"
)

const benchRecords = 1_000_000

// fillBenchmark saves a log of benchRecords records.
func fillBenchmark(b *testing.B, folder string, perBatch int) {
	b.Helper()
	r, err := replica.Open(folder, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	l := &replicaLog{epoch: 7}
	id := engine.ID{Client: engine.NewClient(), Seq: 1}
	for n := 0; n < benchRecords; n += perBatch {
		records := make([]*engine.Record, perBatch)
		for i := range records {
			records[i] = &engine.Record{Kind: engine.KindGrant, Amounts: engine.Amounts{Units: 1, Calls: 1},
				Labels: engine.Labels{Method: "videos.list", Lane: "cron", Job: "fetch", Region: "US"}}
		}
		l.batches = append(l.batches, engine.Batch{Position: uint64(len(l.batches) + 1),
			At: time.Now().UnixMicro() - benchRecords + int64(n), Data: engine.Pack(id, records)})
		id.Seq += uint64(perBatch)
	}
	for n := 0; n < len(l.batches); n += 1000 {
		l.save(r, n, min(n+1000, len(l.batches)))
	}
}

// BenchmarkLoad reads a million records: in a process that starts, without and
// with folding them.
func BenchmarkLoad(b *testing.B) {
	cpu := func() float64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	for _, perBatch := range []int{1, 64} {
		folder := b.TempDir()
		fillBenchmark(b, folder, perBatch)
		b.Run(fmt.Sprintf("batch=%d/read", perBatch), func(b *testing.B) {
			before := cpu()
			defer func() { b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op") }()
			for b.Loop() {
				r, _ := replica.Open(folder, nil)
				count := 0
				err := r.Load(accountCopy, func(epoch uint64, _ *engine.Batch) error {
					count += perBatch
					return nil
				})
				if err != nil || count < benchRecords {
					b.Fatal(count, err)
				}
				r.Close()
			}
		})
		b.Run(fmt.Sprintf("batch=%d/fold", perBatch), func(b *testing.B) {
			before := cpu()
			defer func() { b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op") }()
			for b.Loop() {
				r, _ := replica.Open(folder, nil)
				e := engine.New(lostLedger{}, &engine.Options{Replica: r})
				_ = e.Account(accountCopy).View(context.Background(), func(*engine.View) {})
				r.Close()
			}
		})
	}
}

// lostLedger is a ledger that is down.
type lostLedger struct{ engine.Ledger }

func (lostLedger) Read(context.Context, string, *engine.Read) (*engine.Tail, error) {
	return nil, engine.ErrLedgerDown
}

// BenchmarkSave is what keeping one batch costs.
func BenchmarkSave(b *testing.B) {
	r, err := replica.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	l := (&replicaLog{epoch: 7}).add(make([]int64, 1000)...)
	known := l.known(0)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		batch := l.batches[n%len(l.batches)]
		n++
		batch.Position = uint64(n)
		r.Save(accountCopy, known, []engine.Batch{batch})
		known.After, known.Tag = batch.Position, batch.Tag()
	}
}

// BenchmarkSpend is a decision in memory with and without a copy.
func BenchmarkSpend(b *testing.B) {
	for _, isKept := range []bool{false, true} {
		b.Run(fmt.Sprintf("replica=%t", isKept), func(b *testing.B) {
			o := &engine.Options{}
			if isKept {
				r, err := replica.Open(b.TempDir(), nil)
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close()
				o.Replica = r
			}
			a := engine.New(memledger.Open(nil), o).Account(accountCopy)
			for b.Loop() {
				_, err := a.Spend(context.Background(), &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1}})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
