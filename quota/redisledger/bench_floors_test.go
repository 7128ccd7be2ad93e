package redisledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// BenchmarkOldLog has a log of 26 hours, of which the window sees 24, as in
// most logs.
func BenchmarkOldLog(b *testing.B) {
	fill := func(b *bench, _ *redisledger.Ledger) {
		now := time.Now().Add(-26 * time.Hour) // a log's retention
		old, err := redisledger.Open(b.server.URL(), &redisledger.Options{Prefix: "b", Now: func() time.Time { return now }})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = old.Close() })
		for n := range 1083 {
			now = now.Add(time.Duration(50+n%73) * time.Second)
			b.fill(old, 10, 1, wide)
		}
	}
	most := charge("day", 9000, quota.Sliding(24*time.Hour))
	each(b, "granted1", nil, func(b *bench, l *redisledger.Ledger) { b.spend(l, 1, true, wide) }, fill)
	each(b, "refused100", nil, func(b *bench, l *redisledger.Ledger) {
		b.spend(l, 100, false, most)
	}, fill)
}

// BenchmarkFloors charges calls to a budget with floors for eight regions,
// which have used all of theirs: the oldest 8,400 of 9,500 calls. A refused
// call waits for the first of the other calls.
func BenchmarkFloors(b *testing.B) {
	const regions, each = 8, 1050
	with := func(limit quota.Units) *quota.Charge {
		c := charge("day", limit, quota.Sliding(24*time.Hour))
		for i := range regions {
			coverage := quota.NewCoverage(quota.Coverage{Regions: []string{fmt.Sprint("R", i)}})
			c.Floors = append(c.Floors, quota.Floor{Coverage: coverage, Units: each})
		}
		return c
	}
	for name, limit := range map[string]quota.Units{"granted": 1e9, "refused": 9500} {
		b.Run(name, func(tb *testing.B) {
			b := newBench(tb)
			l, day := b.ledgers(1)[0], with(limit)
			for n := 0; n < 9500; n += 500 {
				batch := &quota.Batch{Account: account}
				for i := range 500 {
					r := quota.Request{Method: "videos.list", Units: 1, Force: true, Charges: []*quota.Charge{day}}
					if n+i < regions*each {
						r.Caller.Region = fmt.Sprint("R", (n+i)%regions)
					}
					batch.Requests = append(batch.Requests, r)
				}
				if _, err := l.Spend(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.compare(1, func(int) { b.spend(l, 1, limit > 9500, day) })
		})
	}
}
