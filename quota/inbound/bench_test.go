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
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// A simulated hour, in which a million clients make a request each, in random
// order, and a few busy ones as many again.
const (
	manyClients = 1_000_000
	busyClients = 100
)

// BenchmarkMillionClients reports the time of a decision in the first and the
// last tenth of the hour, and the memory of the ledger in its middle and at its
// end. Run it with -benchtime 1x.
func BenchmarkMillionClients(b *testing.B) {
	limits := []inbound.Limit{{Calls: 10, Per: time.Second}, {Calls: 60, Per: time.Minute}}
	b.Run("memory", func(b *testing.B) {
		clock := &ledgertest.Clock{}
		ledger := memledger.Open(&memledger.Options{Now: clock.Now})
		runHour(b, clock, ledger, limits, manyClients, 1, heapInUse)
		runtime.KeepAlive(ledger)
	})
	b.Run("Redis", func(b *testing.B) {
		clock, server := &ledgertest.Clock{}, redistest.Start(b)
		ledger, err := redisledger.Open(server.URL(), &redisledger.Options{Now: clock.Now})
		if err != nil {
			b.Fatal(err)
		}
		defer ledger.Close()
		clients := manyClients / 10 // Redis drops keys in its own time, so that all of these are there at the end
		if os.Getenv("RATION_SOAK") == "1" {
			clients = manyClients
		}
		runHour(b, clock, ledger, limits, clients, 64, func() float64 { return redisMemory(b, server) })
	})
}

func runHour(b *testing.B, clock *ledgertest.Clock, ledger quota.Ledger, limits []inbound.Limit, clients, workers int, memory func() float64) {
	limiter, err := inbound.New(ledger, limits, &inbound.Options{Client: inbound.Header("Client"), Timeout: time.Minute, Report: func(err error) { b.Error(err) }})
	if err != nil {
		b.Fatal(err)
	}
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	order := rand.New(rand.NewPCG(1, 2)).Perm(2 * clients)
	empty, tenth := memory(), len(order)/10
	var spans []time.Duration
	var held []float64
	for part := range 10 {
		began := time.Now()
		var wg sync.WaitGroup
		for worker := range workers {
			wg.Go(func() {
				for i := part*tenth + worker; i < (part+1)*tenth; i += workers {
					client := order[i]
					if client >= clients {
						client %= busyClients
					}
					clock.Add(time.Hour / time.Duration(2*clients))
					r := httptest.NewRequest(http.MethodGet, "/", nil)
					r.Header.Set("Client", strconv.Itoa(client))
					handler.ServeHTTP(httptest.NewRecorder(), r)
				}
			})
		}
		wg.Wait()
		spans, held = append(spans, time.Since(began)), append(held, memory()-empty)
	}
	b.ReportMetric(float64(spans[0].Nanoseconds())/float64(tenth), "ns/first")
	b.ReportMetric(float64(spans[9].Nanoseconds())/float64(tenth), "ns/last")
	b.ReportMetric(held[4]/1e6, "MB/middle")
	b.ReportMetric(held[9]/1e6, "MB/end")
}

func heapInUse() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func redisMemory(b *testing.B, server *redistest.Server) float64 {
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
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
