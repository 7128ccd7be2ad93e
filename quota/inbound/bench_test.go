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

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
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
// last tenth of a simulated hour, and the memory of the store in its middle and
// at its end. Run it with -benchtime 1x.
func BenchmarkMillionClients(b *testing.B) {
	clock, store := newClock(), inbound.Memory()
	next := func() time.Time {
		clock.Add(time.Hour / (2 * manyClients))
		return clock.Now()
	}
	m := measure(b, store, manyClients, 1, next, heapInUse)
	runtime.KeepAlive(store)
	m.report(b)
}

// BenchmarkMillionClientsRedis is BenchmarkMillionClients on a real Redis and
// in real time, as fast as it goes, 64 at a time, which takes minutes: it is
// for RATION_SOAK=1, without which a hundred thousand come. It reports how many
// times as long a decision takes as with 1,000 clients, and as a PING by as
// many connections. At the end it waits until Redis has dropped all clients,
// which is two minutes after the last request.
func BenchmarkMillionClientsRedis(b *testing.B) {
	server := servers.StartRedis(b)
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
	store := redisstore.New(redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 64,
		ContextTimeoutEnabled: true}))
	defer store.Close()
	clients, soak := manyClients/10, os.Getenv("RATION_SOAK") == "1"
	if soak {
		clients = manyClients
	}
	few := measure(b, store, 1000, 64, nil, memory)
	before := ping()
	many := measure(b, store, clients, 64, nil, memory)
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

func measure(b *testing.B, store inbound.Store, clients, workers int, now func() time.Time,
	memory func() float64) (m measured) {
	var failed atomic.Int64
	defer func() { m.failed = float64(failed.Load()) }()
	limiter, err := inbound.New(store, benchLimits(), &inbound.Options{
		Client: inbound.Header("Client"), Timeout: time.Minute, Report: func(error) { failed.Add(1) }, Now: now,
	})
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
