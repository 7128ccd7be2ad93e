package redisledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// BenchmarkStorm compares the first decision after 9,500 entries have expired
// with a ZREMRANGEBYSCORE of as many members.
func BenchmarkStorm(tb *testing.B) {
	b := newBench(tb)
	now := time.Now()
	l, err := redisledger.Open(b.server.URL(), &redisledger.Options{Now: func() time.Time { return now }, Prefix: "storm"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	var ours, theirs []float64
	for b.Loop() {
		b.fill(l, 9500, 1, wide)
		members := []any{"zadd", "z"}
		for i := range 9500 {
			members = append(members, i, fmt.Sprint("member:", i))
		}
		do(b, b.client, members...)
		now = now.Add(40 * time.Hour)
		do(b, b.client, "config", "resetstat")
		b.spend(l, 1, true, wide)
		do(b, b.client, "zremrangebyscore", "z", "-inf", "+inf")
		ours = append(ours, b.scriptTime("evalsha"))
		theirs = append(theirs, b.scriptTime("zremrangebyscore"))
	}
	b.ReportMetric(median(ours), "script-µs")
	b.ReportMetric(median(ours)/median(theirs), "xZREMRANGE")
}

// BenchmarkLongest runs the scripts that read most in normal use: a page of the
// log, a settle behind 256 entries, a granted batch of 128.
func BenchmarkLongest(tb *testing.B) {
	b := newBench(tb)
	l := b.ledgers(1)[0]
	b.fill(l, 9500, 1, wide)
	settled := map[string]func(){
		"page": func() {
			n := 0
			for range l.Entries(context.Background(), quota.Query{Account: account}) {
				if n++; n == 100 {
					break
				}
			}
		},
		"settle256": func() {
			answers, err := l.Spend(context.Background(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "videos.list", Units: 3, Charges: []*quota.Charge{wide}}}})
			if err != nil {
				b.Fatal(err)
			}
			b.fill(l, 256, 1, wide)
			do(b, b.client, "config", "resetstat")
			if err := l.Settle(context.Background(), answers[0].Receipt, 2); err != nil {
				b.Fatal(err)
			}
		},
		"batch128": func() { b.fill(l, 128, 1, wide) },
	}
	took := map[string][]float64{}
	for b.Loop() {
		for name, op := range settled {
			do(b, b.client, "config", "resetstat")
			op()
			took[name] = append(took[name], b.scriptTime("evalsha"))
		}
	}
	for name, v := range took {
		b.ReportMetric(median(v), name+"-µs")
	}
}
