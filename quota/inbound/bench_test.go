package inbound_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// A million clients make a request each, in random order, and a few busy ones
// as many again.
const (
	manyClients = 1_000_000
	busyClients = 100
)

func benchLimits() []inbound.Limit {
	return []inbound.Limit{{Calls: 10, Per: time.Second}, {Calls: 60, Per: time.Minute}}
}

// BenchmarkMillionClients reports the time of a decision in the first and the
// last tenth of a simulated hour, and the memory of the ledger in its middle
// and at its end. Run it with -benchtime 1x.
func BenchmarkMillionClients(b *testing.B) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	ledger := ledgertest.Memory(&memledger.Options{Now: clock.Now})
	m := measure(b, ledger, manyClients, 1, func() { clock.Add(time.Hour / (2 * manyClients)) }, heapInUse)
	runtime.KeepAlive(ledger)
	m.report(b)
}

// BenchmarkMillionClientsRedis is BenchmarkMillionClients on a real Redis and
// in real time, as fast as it goes, 64 at a time, which takes minutes: it is
// for RATION_SOAK=1, without which a hundred thousand come. It reports how many
// times as long a decision takes as with 1,000 clients, and as a PING by as
// many connections. At the end it waits until Redis has dropped all clients,
// which is two minutes and five more after the last request.
func BenchmarkMillionClientsRedis(b *testing.B) {
	server := redistest.Start(b)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 64})
	defer plain.Close()
	ping := func() float64 {
		const pings = 200_000
		began := time.Now()
		each(64, pings, func(int) {
			if err := plain.Ping(context.Background()).Err(); err != nil {
				b.Error(err)
			}
		})
		return float64(time.Since(began).Nanoseconds()) / pings
	}
	memory := func() float64 { return redisMemory(b, plain) }
	ledger, err := ledgertest.Redis(server.URL(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer ledger.Close()
	clients, soak := manyClients/10, os.Getenv("RATION_SOAK") == "1"
	if soak {
		clients = manyClients
	}
	few := measure(b, ledger, 1000, 64, func() {}, memory)
	before := ping()
	many := measure(b, ledger, clients, 64, func() {}, memory)
	b.ReportMetric(many.last/few.last, "x-1000-clients")
	b.ReportMetric(many.last/((before+ping())/2), "x-PING")
	many.report(b)
	keys := func() int64 { return plain.DBSize(context.Background()).Val() }
	b.ReportMetric(float64(keys()), "keys/end")
	for soak && keys() > 100 {
		time.Sleep(time.Second)
	}
	b.ReportMetric(memory()/1e6, "MB/dropped")
}

// each calls f with 0 to n-1 from some goroutines.
func each(workers, n int, f func(i int)) {
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}

// measured is the time of a decision in the first and the last tenth of the
// requests, in ns, the memory in the middle and at the end, and how many
// decisions failed, as they do where other programs keep Redis waiting for
// a second.
type measured struct{ first, last, middle, end, failed float64 }

func (m *measured) report(b *testing.B) {
	b.ReportMetric(m.first, "ns/first")
	b.ReportMetric(m.last, "ns/last")
	b.ReportMetric(m.middle/1e6, "MB/middle")
	b.ReportMetric(m.end/1e6, "MB/end")
	b.ReportMetric(m.failed, "failed")
}

func measure(b *testing.B, ledger quota.Log, clients, workers int, next func(), memory func() float64) (m measured) {
	var failed atomic.Int64
	defer func() { m.failed = float64(failed.Load()) }()
	limiter, err := inbound.New(ledger, benchLimits(), &inbound.Options{Client: inbound.Header("Client"), Timeout: time.Minute, Report: func(error) { failed.Add(1) }})
	if err != nil {
		b.Fatal(err)
	}
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	requests := 2 * max(clients, 50_000)
	order := rand.New(rand.NewPCG(1, 2)).Perm(requests)
	empty, tenth := memory(), requests/10
	for part := range 10 {
		began := time.Now()
		each(workers, tenth, func(i int) {
			client := order[part*tenth+i]
			if client >= requests/2 {
				client %= busyClients
			}
			next()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Client", strconv.Itoa(client%clients))
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
		m.last = float64(time.Since(began).Nanoseconds()) / float64(tenth)
		switch m.end = memory() - empty; part {
		case 0:
			m.first = m.last
		case 4:
			m.middle = m.end
		}
	}
	return m
}

func heapInUse() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func redisMemory(b *testing.B, client *redis.Client) float64 {
	out, err := client.Info(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			bytes, _ := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return bytes
		}
	}
	b.Fatal(fmt.Errorf("no used_memory in %s", out))
	return 0
}
