// Package bench holds ration's Redis ledger beside what else limits rates over
// Redis and in process. It is a module of its own, so that none of them is a
// dependency of ration. Run it with
//
//	go test -bench . -benchtime 3s -count 6
package bench

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

const (
	callers = 64
	slice   = 100 * time.Millisecond
	window  = 24 * time.Hour
	limit   = quota.MaxLimit
)

// server is a redis-server with a client of 64 connections.
type server struct {
	addr   string
	client *redis.Client
}

func start(b *testing.B) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := listener.Addr().(*net.TCPAddr)
	_ = listener.Close()
	cmd := exec.Command("redis-server", "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1", "--save", "", "--dir",
		b.TempDir())
	if err := cmd.Start(); err != nil {
		b.Fatalf("no redis-server: %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: addr.String(), PoolSize: callers, MinIdleConns: callers})
	b.Cleanup(func() {
		_ = client.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); client.Ping(context.Background()).Err() != nil; {
		if time.Now().After(deadline) {
			b.Fatal("redis-server does not answer")
		}
	}
	pin(b, cmd.Process.Pid)
	return &server{addr: addr.String(), client: client}
}

// cpu returns the seconds of CPU time that the server has used.
func (s *server) cpu(b *testing.B) (seconds float64) {
	info, err := s.client.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += v
		}
	}
	return seconds
}

// run has 64 goroutines call op for one slice of time, and returns decisions a
// second and the server's CPU seconds for each.
func (s *server) run(b *testing.B, op func(caller int) error) (perSecond, cpu float64) {
	var wg sync.WaitGroup
	var total atomic.Int64
	used, began := s.cpu(b), time.Now()
	for i := range callers {
		wg.Go(func() {
			n := int64(0)
			for ; time.Since(began) < slice; n++ {
				if err := op(i); err != nil {
					b.Error(err)
					return
				}
			}
			total.Add(n)
		})
	}
	wg.Wait()
	n := float64(total.Load())
	return n / time.Since(began).Seconds(), (s.cpu(b) - used) / n
}

// unitScript is the sliding log that everybody copies: one member of a ZSET a
// unit.
var unitScript = redis.NewScript(`local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
local used = redis.call('ZCARD', KEYS[1])
if used + ARGV[3] > tonumber(ARGV[2]) then return {0, used} end
for i = 1, ARGV[3] do redis.call('ZADD', KEYS[1], now, ARGV[4] .. ':' .. i) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] / 1000)
return {1, used + ARGV[3]}`)

// peers are functions that decide a call of n units, which is never refused.
func peers(b *testing.B, s *server, units int) map[string]func(int) error {
	ctx := context.Background()
	gcra := redis_rate.NewLimiter(s.client)
	store, err := goredisstore.NewCtx(s.client, "throttled:")
	if err != nil {
		b.Fatal(err)
	}
	throttle, err := throttled.NewGCRARateLimiterCtx(store,
		throttled.RateQuota{MaxRate: throttled.PerSec(1e9), MaxBurst: 1e9})
	if err != nil {
		b.Fatal(err)
	}
	fixedStore, err := ulule.NewStore(s.client)
	if err != nil {
		b.Fatal(err)
	}
	fixed := limiter.New(fixedStore, limiter.Rate{Period: window, Limit: int64(limit)})
	var id atomic.Int64
	var guards [callers]*quota.Guard
	for i := range guards {
		store, err := redisledger.Open("redis://"+s.addr, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = store.Close() })
		guards[i], err = quota.NewGuard(store, []quota.Budget{{Account: "a", Name: "day", Limit: limit,
			Window: quota.Sliding(window)}}, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
	ours := func(g *quota.Guard) error {
		_, err := g.Spend(ctx, quota.Call{Account: "a", Method: "m", Units: quota.Units(units)})
		return err
	}
	return map[string]func(int) error{
		"ration/alone":    func(i int) error { return ours(guards[i]) },
		"ration/combined": func(int) error { return ours(guards[0]) },
		"redis_rate": func(int) error {
			_, err := gcra.AllowN(ctx, "k", redis_rate.Limit{Rate: 1e9, Period: time.Second, Burst: 1e9}, units)
			return err
		},
		"throttled": func(int) error {
			_, _, err := throttle.RateLimitCtx(ctx, "k", units)
			return ignoreContention(err)
		},
		"ulule": func(int) error {
			_, err := fixed.Increment(ctx, "k", int64(units))
			return err
		},
		"zset-a-unit": func(int) error {
			return unitScript.Run(ctx, s.client, []string{"z"}, int64(window/time.Microsecond), int64(limit), units,
				id.Add(1)).Err()
		},
	}
}

// ignoreContention: throttled compares and swaps from outside, and under
// contention gives up after ten tries. That counts as a decision here, in its
// favour.
func ignoreContention(err error) error {
	if err != nil && strings.Contains(err.Error(), "to store updated rate limit data") {
		return nil
	}
	return err
}

// BenchmarkPeers prints each peer's rate, also against PING, and its cost on
// the server against an empty script, all of the same rounds.
func BenchmarkPeers(tb *testing.B) {
	for _, units := range []int{1, 100} {
		for _, name := range []string{"ration/alone", "ration/combined", "redis_rate", "throttled", "ulule",
			"zset-a-unit"} {
			tb.Run(fmt.Sprintf("%s/cost%d", name, units), func(b *testing.B) {
				s := start(b)
				ctx := context.Background()
				sha := s.client.ScriptLoad(ctx, "return 0").Val()
				op := peers(b, s, units)[name]
				if err := op(0); err != nil {
					b.Fatal(err)
				}
				var rates, xping, xe []float64
				for b.Loop() {
					ping, _ := s.run(b, func(int) error { return s.client.Ping(ctx).Err() })
					_, empty := s.run(b, func(int) error { return s.client.EvalSha(ctx, sha, nil).Err() })
					rate, cpu := s.run(b, op)
					rates, xping, xe = append(rates, rate), append(xping, rate/ping), append(xe, cpu/empty)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(rates), "decisions/s")
				b.ReportMetric(median(xping), "xPING")
				b.ReportMetric(median(xe), "xE")
			})
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkInProcess is the ledger in memory beside x/time/rate, at one
// goroutine and at many.
func BenchmarkInProcess(b *testing.B) {
	bucket := rate.NewLimiter(1e9, 1e9)
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{{Account: "a", Name: "day", Limit: limit,
		Window: quota.Sliding(time.Second)}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, op := range map[string]func(){
		"x-time-rate": func() { bucket.AllowN(time.Now(), 1) },
		"memledger": func() {
			_, _ = guard.Spend(context.Background(), quota.Call{Account: "a", Method: "m", Units: 1})
		},
	} {
		b.Run(name+"/1", func(b *testing.B) {
			for b.Loop() {
				op()
			}
		})
		b.Run(name+"/64", func(b *testing.B) {
			b.SetParallelism(callers / 2)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					op()
				}
			})
		})
	}
}
