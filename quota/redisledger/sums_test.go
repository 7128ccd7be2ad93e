package redisledger_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// regional fills a log like a job that fetches for 24 regions: n entries with
// 96 labels and a client for every 40 entries.
func regional(t testing.TB, l quota.Ledger, n int) {
	t.Helper()
	for i := 0; i < n; {
		batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: uint64(i + 1)}
		for range min(40, n-i) {
			batch.Requests = append(batch.Requests, quota.Request{
				Method: fmt.Sprint("method", i%4), Units: quota.Units(i%9 + 1), Force: true,
				Caller:  quota.Caller{Lane: "cron", Job: "trending", Region: fmt.Sprint("R", i/40%24)},
				Charges: []*quota.Charge{day},
			})
			i++
		}
		if _, err := l.Spend(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// addedUp returns the number of entries that a query adds up, and of its sums.
func addedUp(t testing.TB, l quota.Ledger, query quota.Query) (entries int64, sums int) {
	t.Helper()
	for sum, err := range l.Sums(context.Background(), query) {
		if err != nil {
			t.Fatal(err)
		}
		entries += sum.Entries
		sums++
	}
	return entries, sums
}

// lastTen reads the ten newest entries.
func lastTen(t testing.TB, l quota.Ledger) {
	t.Helper()
	left := 10
	for _, err := range l.Entries(context.Background(), quota.Query{Account: account, Newest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if left--; left == 0 {
			return
		}
	}
	t.Fatalf("%d of the last ten entries are missing", left)
}

// TestALookReadsLittle: the last entries of a long log are read without
// the rest, and its sums are not computed in scripts, which the server
// cannot interrupt.
func TestALookReadsLittle(t *testing.T) {
	server := redistest.Start(t)
	client, l := raw(t, server), fresh(t, server.URL(), nil)
	sent := func() int64 { return stat(t, client, "stats", "total_net_output_bytes:") }
	regional(t, l, 10_000)
	lastTen(t, l) // loads the script
	sent()
	info := -sent() + sent() // the length of an answer to INFO
	before := sent()
	lastTen(t, l)
	if bytes := sent() - before - info; bytes > 5000 {
		t.Errorf("the server sent %d bytes for the last ten entries", bytes)
	}
	do(t, client, "config", "resetstat")
	if entries, sums := addedUp(t, l, quota.Query{Account: account}); entries != 10_000 || sums != 96 {
		t.Errorf("%d entries in %d sums; want 10000 in 96", entries, sums)
	}
	if scripts := stat(t, client, "commandstats", "cmdstat_evalsha:calls="); scripts != 1 {
		t.Errorf("%d scripts for the sums of a log; want 1, which finds where it begins", scripts)
	}
}

// stat returns a number of a section of INFO.
func stat(t testing.TB, c *redis.Client, section, name string) (n int64) {
	t.Helper()
	_, rest, _ := strings.Cut(do(t, c, "info", section).(string), name)
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestTrimmedBetweenPagesOfSums: no entry is missed that is never trimmed.
func TestTrimmedBetweenPagesOfSums(t *testing.T) {
	server := redistest.Start(t)
	client, beside := raw(t, server), raw(t, server)
	l := redisledger.New(client, nil)
	regional(t, l, 20_000)
	client.AddHook(after{"lrange", sync.OnceFunc(func() { do(t, beside, "ltrim", redisledger.LogKey(l, account), 6000, -1) })})
	if entries, _ := addedUp(t, l, quota.Query{Account: account}); entries != 18_000 {
		t.Errorf("%d entries; want 4000 of the first page, and the 14000 that were left", entries)
	}
}

// after is a hook that calls do after each command with a given name.
type after struct {
	name string
	do   func()
}

// DialHook implements redis.Hook.
func (after) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (after) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (h after) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == h.name {
			h.do()
		}
		return err
	}
}

// BenchmarkLookAtAMillion runs the queries of status and log on a
// million entries.
func BenchmarkLookAtAMillion(tb *testing.B) {
	b := newBench(tb)
	l := b.ledgers(1)[0]
	regional(b, l, 1_000_000)
	for name, look := range map[string]func(){
		"sums":   func() { addedUp(b, l, quota.Query{Account: account}) },
		"last10": func() { lastTen(b, l) },
	} {
		tb.Run(name, func(tb *testing.B) {
			before := b.cpu()
			for tb.Loop() {
				look()
			}
			tb.ReportMetric(1e6*(b.cpu()-before)/float64(tb.N), "server-µs/op")
		})
	}
}
