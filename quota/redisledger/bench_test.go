package redisledger_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// These benchmarks are compared with lower bounds: each round runs PING, an
// empty script and the subject for a slice of time each, so that other load on
// the machine affects all three. xPING is the rate relative to PING; xE is the
// server's CPU time per decision relative to an empty EVALSHA.
const (
	callers = 64
	slice   = 100 * time.Millisecond
)

// bench is a server and the scripts of the lower bounds.
type bench struct {
	*testing.B
	server *redistest.Server
	client *redis.Client
	empty  string
}

func newBench(b *testing.B, args ...string) *bench {
	server := redistest.Start(b, args...)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: callers, MinIdleConns: callers})
	b.Cleanup(func() { _ = client.Close() })
	pin(b, server.PID())
	return &bench{B: b, server: server, client: client, empty: do(b, client, "script", "load", "return 0").(string)}
}

// measured is the result of one slice.
type measured struct{ rate, cpu, p99 float64 } // decisions a second, µs of the server's CPU each, µs

// run has n goroutines call op for one slice of time.
func (b *bench) run(n int, op func(caller int)) measured {
	var wg sync.WaitGroup
	counts, took := make([]int, n), make([][]time.Duration, n)
	cpu, began := b.cpu(), time.Now()
	for i := range n {
		wg.Go(func() {
			for last := time.Now(); last.Sub(began) < slice; counts[i]++ {
				op(i)
				now := time.Now()
				took[i] = append(took[i], now.Sub(last))
				last = now
			}
		})
	}
	wg.Wait()
	seconds, used, total := time.Since(began).Seconds(), b.cpu()-cpu, 0
	for _, n := range counts {
		total += n
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return measured{float64(total) / seconds, used / float64(total) * 1e6, float64(all[len(all)*99/100]) / 1e3}
}

// cpu returns the seconds of CPU time that the server has used.
func (b *bench) cpu() float64 { return b.info("cpu", "used_cpu_user") + b.info("cpu", "used_cpu_sys") }

// compare runs rounds of both floors and the subject and reports the medians.
func (b *bench) compare(n int, op func(caller int)) (subject measured) {
	var xping, xe, rate, cpu, script, p99, xp99 []float64
	ctx := context.Background()
	op(0)
	for b.Loop() {
		ping := b.run(n, func(int) { b.client.Ping(ctx) })
		empty := b.run(n, func(int) { b.client.EvalSha(ctx, b.empty, nil) })
		do(b, b.client, "config", "resetstat")
		m := b.run(n, op)
		script = append(script, b.scriptTime("evalsha")/(m.rate*slice.Seconds()))
		rate, cpu, p99 = append(rate, m.rate), append(cpu, m.cpu), append(p99, m.p99)
		xping, xe, xp99 = append(xping, m.rate/ping.rate), append(xe, m.cpu/empty.cpu), append(xp99, m.p99/ping.p99)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rate), "decisions/s")
	b.ReportMetric(median(xping), "xPING")
	b.ReportMetric(median(xe), "xE")
	b.ReportMetric(median(script), "script-µs")
	b.ReportMetric(median(xp99), "xPINGp99")
	return measured{median(rate), median(cpu), median(p99)}
}

// scriptTime returns the microseconds spent in a command since the last reset.
func (b *bench) scriptTime(command string) float64 {
	info := do(b, b.client, "info", "commandstats").(string)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":")
	_, rest, _ = strings.Cut(rest, "usec=")
	rest, _, _ = strings.Cut(rest, ",")
	v, _ := strconv.ParseFloat(rest, 64)
	return v
}

func (b *bench) info(section, name string) float64 {
	_, rest, _ := strings.Cut(do(b, b.client, "info", section).(string), name+":")
	rest, _, _ = strings.Cut(rest, "\r")
	v, err := strconv.ParseFloat(rest, 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// against reports the subject's rate and CPU time as multiples of
// another script's.
func (b *bench) against(other, subject func(caller int), unit string) {
	var rate, cpu []float64
	other(0)
	subject(0)
	for b.Loop() {
		o, s := b.run(callers, other), b.run(callers, subject)
		rate, cpu = append(rate, s.rate/o.rate), append(cpu, s.cpu/o.cpu)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rate), unit+"-rate")
	b.ReportMetric(median(cpu), unit+"-CPU")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// ledgers opens n ledgers on one log. Callers with different ledgers do not
// share batches.
func (b *bench) ledgers(n int) []*redisledger.Ledger { return b.ledgersAs(n, "b") }

func (b *bench) ledgersAs(n int, prefix string) []*redisledger.Ledger {
	all := make([]*redisledger.Ledger, n)
	for i := range all {
		l, err := redisledger.Open(b.server.URL(), &redisledger.Options{Prefix: prefix})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		all[i] = l
	}
	return all
}

// fill records n calls of the given units.
func (b *bench) fill(l *redisledger.Ledger, n int, units quota.Units, charges ...*quota.Charge) {
	for n > 0 {
		batch := &quota.Batch{Account: account}
		for range min(n, 500) {
			batch.Requests = append(batch.Requests, quota.Request{Method: "videos.list", Units: units, Force: true, Charges: charges})
		}
		if _, err := l.Spend(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		n -= len(batch.Requests)
	}
}

func (b *bench) spend(l *redisledger.Ledger, units quota.Units, granted bool, charges ...*quota.Charge) {
	batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "videos.list", Units: units, Charges: charges}}}
	answers, err := l.Spend(context.Background(), batch)
	if err != nil || (answers[0].Err == nil) != granted {
		b.Errorf("%+v, %v; want granted %t", answers, err, granted)
	}
}

// each benchmarks decisions by 64 ledgers, one per round trip, and by 64
// callers of one ledger, combined.
func each(b *testing.B, name string, args []string, op func(b *bench, l *redisledger.Ledger), fill func(b *bench, l *redisledger.Ledger)) {
	for _, combined := range []bool{false, true} {
		way := "/alone"
		if combined {
			way = "/combined"
		}
		b.Run(name+way, func(tb *testing.B) {
			b := newBench(tb, args...)
			ledgers := b.ledgers(callers)
			fill(b, ledgers[0])
			b.compare(callers, func(i int) {
				if combined {
					i = 0
				}
				op(b, ledgers[i])
			})
		})
	}
}

var (
	wide = charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour))
	full = charge("day", 9500, quota.Sliding(24*time.Hour))
)

// BenchmarkDecision has a log of 9,500 calls of one unit.
func BenchmarkDecision(b *testing.B) {
	fill := func(b *bench, l *redisledger.Ledger) { b.fill(l, 9500, 1, full) }
	for _, c := range []struct {
		name    string
		units   quota.Units
		granted bool
		charge  *quota.Charge
	}{
		{"granted1", 1, true, wide},
		{"granted100", 100, true, wide},
		{"refused1", 1, false, full},
		{"refused100", 100, false, full},
	} {
		each(b, c.name, nil, func(b *bench, l *redisledger.Ledger) { b.spend(l, c.units, c.granted, c.charge) }, fill)
	}
}

// BenchmarkAppendOnly has appendonly yes, everysec, for the lower bounds too.
func BenchmarkAppendOnly(b *testing.B) {
	args := []string{"--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"}
	fill := func(b *bench, l *redisledger.Ledger) { b.fill(l, 9500, 1, full) }
	each(b, "granted1", args, func(b *bench, l *redisledger.Ledger) { b.spend(l, 1, true, wide) }, fill)
	b.Run("bytes", func(tb *testing.B) {
		b := newBench(tb, args...)
		l := b.ledgers(1)[0]
		b.fill(l, 9500, 1, full)
		b.spend(l, 1, false, full) // learns
		var refused, granted float64
		for b.Loop() {
			began := b.info("persistence", "aof_current_size")
			for range 100 {
				b.spend(l, 1, false, full)
			}
			middle := b.info("persistence", "aof_current_size")
			b.spend(l, 1, true, wide)
			refused, granted = middle-began, b.info("persistence", "aof_current_size")-middle
		}
		b.ReportMetric(refused, "bytes/100-refusals")
		b.ReportMetric(granted, "bytes/grant")
	})
}

// BenchmarkOneCaller measures the cost of combining for a single caller: none.
func BenchmarkOneCaller(tb *testing.B) {
	b := newBench(tb)
	l := b.ledgers(1)[0]
	b.fill(l, 9500, 1, full)
	b.compare(1, func(int) { b.spend(l, 1, true, wide) })
}

// BenchmarkBudgets compares three budgets over three coverages, and three
// windows over one, with one budget.
func BenchmarkBudgets(tb *testing.B) {
	list, cron := charge("list", quota.MaxLimit, quota.Sliding(24*time.Hour), "videos.list"), charge("some", quota.MaxLimit, quota.Sliding(24*time.Hour), "videos.list", "search.list")
	hour, minute := charge("hour", quota.MaxLimit, quota.Sliding(time.Hour)), charge("minute", quota.MaxLimit, quota.Sliding(time.Minute))
	for name, charges := range map[string][]*quota.Charge{"coverages3": {wide, list, cron}, "windows3": {wide, hour, minute}} {
		tb.Run(name, func(tb *testing.B) {
			b := newBench(tb)
			one, three := b.ledgers(callers), b.ledgersAs(callers, "three")
			b.fill(one[0], 1000, 1, wide)
			b.fill(three[0], 1000, 1, charges...)
			b.against(func(i int) { b.spend(one[i], 1, true, wide) }, func(i int) { b.spend(three[i], 1, true, charges...) }, "xONE")
		})
	}
}

// BenchmarkLength compares a million entries with a thousand.
func BenchmarkLength(tb *testing.B) {
	for _, c := range []struct {
		name  string
		units quota.Units
		limit bool
	}{{"granted1", 1, false}, {"refused1", 1, true}, {"refused100", 100, true}} {
		tb.Run(c.name, func(tb *testing.B) {
			b := newBench(tb)
			short, long := b.ledgers(callers), b.ledgersAs(callers, "long")
			few, many := wide, wide
			if c.limit {
				few, many = charge("day", 1000, quota.Sliding(24*time.Hour)), charge("day", 1000000, quota.Sliding(24*time.Hour))
			}
			b.fill(short[0], 1000, 1, wide)
			b.fill(long[0], 1000000, 1, wide)
			b.against(func(i int) { b.spend(short[i], c.units, !c.limit, few) },
				func(i int) { b.spend(long[i], c.units, !c.limit, many) }, "xSHORT")
		})
	}
}

// unitScript is the usual sliding log: a ZSET with one member per unit.
const unitScript = `local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
local used = redis.call('ZCARD', KEYS[1])
if used + ARGV[3] > tonumber(ARGV[2]) then return {0, used} end
for i = 1, ARGV[3] do redis.call('ZADD', KEYS[1], now, ARGV[4] .. ':' .. i) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] / 1000)
return {1, used + ARGV[3]}`

// BenchmarkUnitMembers compares combined calls of 100 units with unitScript.
func BenchmarkUnitMembers(tb *testing.B) {
	b := newBench(tb)
	l := b.ledgers(1)[0]
	b.spend(l, 100, true, wide)
	sha := do(b, b.client, "script", "load", unitScript).(string)
	var ids atomic.Int64
	b.against(func(int) {
		b.client.EvalSha(context.Background(), sha, []string{"units"}, int64(10*time.Second/time.Microsecond), int64(quota.MaxLimit), 100, ids.Add(1))
	}, func(int) { b.spend(l, 100, true, wide) }, "xZSET")
}

// BenchmarkMemory measures the bytes per entry.
func BenchmarkMemory(tb *testing.B) {
	for _, c := range []struct {
		n     int
		units quota.Units
	}{{9500, 1}, {95, 100}} {
		tb.Run(fmt.Sprintf("%dx%d", c.n, c.units), func(tb *testing.B) {
			b := newBench(tb)
			for b.Loop() {
				do(b, b.client, "flushall")
				b.fill(b.ledgers(1)[0], c.n, c.units, wide)
			}
			bytes := float64(do(b, b.client, "memory", "usage", "b:{"+account+"}:log", "samples", 0).(int64))
			b.ReportMetric(bytes/float64(c.n), "bytes/entry")
			b.ReportMetric(bytes, "bytes")
		})
	}
}
