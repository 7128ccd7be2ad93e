package redisledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// BenchmarkSizing prints the sizing table of docs/redis.md: the size of all
// keys of an account after a rate of calls for as long as the log keeps them.
func BenchmarkSizing(tb *testing.B) {
	search := charge("search", quota.MaxLimit, quota.Sliding(24*time.Hour), "search.list")
	for _, c := range []struct {
		name    string
		every   time.Duration
		window  time.Duration
		charges []*quota.Charge
	}{
		{"one-a-minute/24h", time.Minute, 24 * time.Hour, nil},
		{"one-a-second/24h", time.Second, 24 * time.Hour, nil},
		{"one-a-second/24h/a-second-coverage", time.Second, 24 * time.Hour, []*quota.Charge{search}},
		{"ten-a-second/1h", 100 * time.Millisecond, time.Hour, nil},
		{"ten-a-second/24h", 100 * time.Millisecond, 24 * time.Hour, nil},
		{"thousand-a-second/1m", time.Millisecond, time.Minute, nil},
		{"ten-a-second/counter-24h", 100 * time.Millisecond, 0, []*quota.Charge{charge("each", quota.MaxLimit, quota.Counter(24*time.Hour))}},
	} {
		tb.Run(c.name, func(tb *testing.B) {
			b := newBench(tb)
			now, entries := noonUTC(), int64(0)
			charges, retention := c.charges, time.Hour
			if c.window > 0 {
				charges = append(charges, charge("window", quota.MaxLimit, quota.Sliding(c.window)))
				retention = quota.Retention(c.window)
			}
			for b.Loop() {
				do(b, b.client, "flushall")
				l, err := redisledger.Open(b.server.URL(), &redisledger.Options{Prefix: "b", Now: func() time.Time { return now }})
				if err != nil {
					b.Fatal(err)
				}
				entries = 0
				for spent := time.Duration(0); spent < retention; spent += 100 * c.every {
					batch := &quota.Batch{Account: account}
					for range 100 {
						batch.Requests = append(batch.Requests, quota.Request{Method: "search.list", Units: 1, Charges: charges})
					}
					if _, err := l.Spend(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
					now, entries = now.Add(100*c.every), entries+100
				}
				_ = l.Close()
			}
			bytes := int64(0)
			for _, key := range do(b, b.client, "keys", "b:*").([]any) {
				if !strings.HasSuffix(key.(string), ":meta") {
					bytes += do(b, b.client, "memory", "usage", key, "samples", 0).(int64)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(entries), "calls")
			b.ReportMetric(float64(bytes), "bytes")
			b.ReportMetric(float64(bytes)/float64(entries), "bytes/call")
		})
	}
}

// BenchmarkOneKey decides calls of one account's log, by kind of window: a log
// of 9,500 calls, all of them in the window, or the two numbers of a counter.
func BenchmarkOneKey(b *testing.B) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		b.Fatal(err)
	}
	for name, window := range map[string]quota.Window{"sliding": quota.Sliding(24 * time.Hour), "calendar": quota.Monthly(pacific), "counter": quota.Counter(10 * time.Minute)} {
		c := charge("window", quota.MaxLimit, window)
		each(b, name, nil, func(b *bench, l *redisledger.Ledger) { b.spend(l, 1, true, c) },
			func(b *bench, l *redisledger.Ledger) { b.fill(l, 9500, 1, c) })
	}
}
