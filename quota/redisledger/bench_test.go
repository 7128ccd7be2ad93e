package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// alternate runs PING and the subject in turns of a hundred, and reports the
// medians of both, in microseconds.
func alternate(b *testing.B, client *redis.Client, subject func()) {
	var took [2][]time.Duration
	ops := [2]func(){func() { client.Ping(context.Background()) }, subject}
	for i := 0; b.Loop(); i++ {
		which := i / 100 % 2
		began := time.Now()
		ops[which]()
		took[which] = append(took[which], time.Since(began))
	}
	for i, name := range []string{"PING-p50-us", "p50-us"} {
		slices.Sort(took[i])
		if n := len(took[i]); n > 0 {
			b.ReportMetric(float64(took[i][n/2])/1e3, name)
		}
	}
}

// conditional is an append as a guard makes it: four conditions of two totals,
// and four totals that rise.
func conditional(known engine.Known, number, size int) *engine.Append {
	a := &engine.Append{Known: known, NewEpoch: 7, Data: batch(number, size), Count: max(1, size/16)}
	for i := range uint8(4) {
		a.Adds = append(a.Adds, engine.Total{Index: i, Amount: 1})
		a.Conditions = append(a.Conditions, condition(1<<40, i, i+4))
	}
	return a
}

// BenchmarkAppend is one append at a time.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{45, 1000} {
		b.Run(fmt.Sprintf("%dbytes", size), func(b *testing.B) {
			server := servers.StartRedis(b)
			l := newLog(b, open(b, server.URL(), nil), "a")
			cpu := serverCPU(b, server)
			n := 0
			alternate(b, server.Client(b), func() {
				n++
				a := conditional(l.known, n, size)
				if n > 10000 {
					a.Trim = uint64(n - 10000)
				}
				l.append(a)
			})
			b.ReportMetric((serverCPU(b, server)-cpu)/float64(b.N)*1e6, "server-us/op")
		})
	}
}

// BenchmarkBatchesOf64 appends batches of 64 records of 16 bytes, one in
// flight.
func BenchmarkBatchesOf64(b *testing.B) {
	server := servers.StartRedis(b)
	l := newLog(b, open(b, server.URL(), nil), "a")
	for n := 1; b.Loop(); n++ {
		a := conditional(l.known, n, 1000)
		a.Trim = uint64(max(0, n-10000))
		l.append(a)
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkProcesses is several callers with a client each, which all append to
// one log without a limit, and receive what the others have appended.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			server := servers.StartRedis(b)
			var logs []*log
			for i := range n {
				l := newLog(b, open(b, server.URL(), nil), "a")
				l.number = i << 20
				logs = append(logs, l)
			}
			logs[0].append(logs[0].next())
			for _, l := range logs[1:] {
				l.known = logs[0].known
			}
			var received, pages [16]int
			cpu := serverCPU(b, server)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, l := range logs {
				wg.Go(func() {
					for k := range b.N / n {
						tail := l.append(conditional(l.known, i<<20+k, 45))
						received[i] += len(tail.Batches)
						pages[i]++
					}
				})
			}
			wg.Wait()
			b.ReportMetric((serverCPU(b, server)-cpu)/float64(b.N)*1e6, "server-us/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(sum(received[:]))/float64(max(1, sum(pages[:]))), "received/op")
		})
	}
}

// BenchmarkGuards is the calls of several processes with some callers each, far
// from the limits of four budgets. PING alone is in BenchmarkAppend.
func BenchmarkGuards(b *testing.B) {
	search := []string{"search"}
	budgets := []quota.Budget{
		{Account: "a", Name: "trailing", Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)},
		{Account: "a", Name: "day", Limit: quota.MaxLimit, Window: quota.Daily(time.UTC)},
		{Account: "a", Name: "search", Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour), Methods: search},
		{Account: "a", Name: "burst", Limit: quota.MaxLimit, Window: quota.Sliding(10 * time.Minute), Methods: search},
	}
	call := quota.Call{Account: "a", Method: "search", Units: 1}
	for _, c := range []struct{ processes, callers int }{{1, 1}, {1, 64}, {4, 16}, {16, 1}} {
		b.Run(fmt.Sprintf("%dof%d", c.processes, c.callers), func(b *testing.B) {
			server := servers.StartRedis(b)
			var guards []*quota.Guard
			for range c.processes {
				guard, err := quota.NewGuard(open(b, server.URL(), nil), budgets, nil)
				if err != nil {
					b.Fatal(err)
				}
				guards = append(guards, guard)
			}
			cpu := serverCPU(b, server)
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range c.processes * c.callers {
				wg.Go(func() {
					for range max(1, b.N/c.processes/c.callers) {
						if _, err := guards[i%len(guards)].Spend(b.Context(), call); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric((serverCPU(b, server)-cpu)/float64(b.N)*1e6, "server-us/op")
		})
	}
}

// BenchmarkEmptyScript is what the server needs for a script that does nothing.
func BenchmarkEmptyScript(b *testing.B) {
	server := servers.StartRedis(b)
	client := server.Client(b)
	empty := redis.NewScript("return 0")
	cpu := serverCPU(b, server)
	for b.Loop() {
		empty.Run(b.Context(), client, []string{"a", "b"}, 1, 2, 3)
	}
	b.ReportMetric((serverCPU(b, server)-cpu)/float64(b.N)*1e6, "server-us/op")
}

func BenchmarkStart(b *testing.B) {
	ledgertest.Start(b, func(b *testing.B, account string, batches []engine.Batch) engine.Ledger {
		server := servers.StartRedis(b)
		l := newLog(b, open(b, server.URL(), nil), account)
		fill(b, server, l, batches)
		return l.Ledger
	})
}

// fill writes batches as the script would.
func fill(b testing.TB, server *servers.Redis, l *log, batches []engine.Batch) {
	l.append(&engine.Append{NewEpoch: 7, Data: batches[0].Data})
	client := server.Client(b)
	for rest := range slices.Chunk(batches[1:], 1000) {
		elements := []any{"rpush", l.base(l.account) + "batches"}
		for _, batch := range rest {
			var element numbers
			element.add(batch.At)
			elements = append(elements, append([]byte(element), batch.Data...))
		}
		if err := client.Do(context.Background(), elements...).Err(); err != nil {
			b.Fatal(err)
		}
	}
	last := batches[len(batches)-1]
	server.Do(b, "hset", l.base(l.account)+"head", "position", len(batches), "tag", string(last.Data[:engine.TagSize]))
}

// BenchmarkMemory reports how many bytes of the server's memory an element
// needs. Its data are 8 bytes less.
func BenchmarkMemory(b *testing.B) {
	for _, size := range []int{37, 45, 53, 200, 270, 1000, 1700} {
		b.Run(fmt.Sprintf("%dbytes", size), func(b *testing.B) {
			for b.Loop() {
				const n = 100_000
				server := servers.StartRedis(b)
				before := info(b, server, "memory", "used_memory_dataset")
				batches := make([]engine.Batch, n)
				for i := range batches {
					batches[i].Data = batch(i+1, size)
				}
				fill(b, server, newLog(b, open(b, server.URL(), nil), "a"), batches)
				b.ReportMetric((info(b, server, "memory", "used_memory_dataset")-before)/n, "bytes/element")
				usage := server.Do(b, "memory", "usage", "ration:{a}:batches", "samples", "0").(int64)
				b.ReportMetric(float64(usage)/n, "usage/element")
			}
		})
	}
}

func serverCPU(b testing.TB, server *servers.Redis) float64 {
	return info(b, server, "cpu", "used_cpu_user") + info(b, server, "cpu", "used_cpu_sys")
}

// info returns a number of the server's INFO.
func info(b testing.TB, server *servers.Redis, section, name string) float64 {
	b.Helper()
	for line := range strings.Lines(server.Do(b, "info", section).(string)) {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				b.Fatal(err)
			}
			return value
		}
	}
	b.Fatalf("INFO %s has no %s", section, name)
	return 0
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}
