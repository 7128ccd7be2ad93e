//go:build linux || darwin

package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const (
	patientCallers = 4  // of each worker
	drawnWorkers   = 3  // in all
	drawnFaults    = 10 // before the limit is reached
)

// TestDrawnFaultsGrantTwice: whatever order of faults hits a ledger, the
// processes of a host together send the upstream no more than the limit. Those
// of two hosts send no more than it and their allowances, if the ledger loses
// nothing. They also send as much as the limit, but for calls whose answer was
// lost, whose process was killed, or that were in flight. RATION_SOAK=1 draws
// twenty orders of each kind; RATION_DRAWN_SEED repeats the order of a failure,
// if not its timing.
func TestDrawnFaultsGrantTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for outages to end, up to 20 seconds")
	}
	orders := 1
	if os.Getenv("RATION_SOAK") == "1" {
		orders = 20
	}
	limit := budgets[0].Limit
	for i := range orders {
		for _, kind := range []struct {
			name    string
			hosts   int
			allowed quota.Units // without the ledger, on each host
			beyond  quota.Units // each limit
			faults  func(*drawn) map[string]func()
		}{
			{"Redis", 1, limit, 0, (*drawn).redisFaults},
			{"SQLite", 1, limit, 0, (*drawn).fileFaults},
			{"two hosts", 2, 50, 2 * 50, (*drawn).outages},
		} {
			seed := rand.Uint64()
			if text := os.Getenv("RATION_DRAWN_SEED"); text != "" {
				seed, _ = strconv.ParseUint(text, 10, 64)
			}
			t.Run(fmt.Sprintf("%s %d", kind.name, i), func(t *testing.T) {
				t.Parallel()
				d := &drawn{T: t, draws: rand.New(rand.NewPCG(seed, 0)), allowed: kind.allowed}
				for range kind.hosts {
					d.roots = append(d.roots, t.TempDir())
				}
				d.listen()
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("RATION_DRAWN_SEED=%d draws\n%s", seed, strings.Join(d.log, "\n"))
					}
				})
				faults := kind.faults(d)
				if kind.hosts == 1 {
					faults["a cooldown"] = d.cool
				}
				d.play(faults)
				d.checkCooldowns()
				if sent, least := quota.Units(d.hits.Load()), limit-quota.Units(d.lost); sent < least {
					t.Errorf("%d calls reached the upstream; want %d at least", sent, least)
				}
				for _, b := range patientBudgets() {
					sent := quota.Units(d.hits.Load())
					if len(b.Methods) > 0 {
						sent = quota.Units(d.of[b.Methods[0]].Load())
					}
					if most := b.Limit + kind.beyond; sent > most {
						t.Errorf("%d calls of budget %s reached the upstream; want %d at most", sent, b.Name, most)
					}
				}
			})
		}
	}
}

// drawn are processes of one or two hosts whose ledger suffers faults.
type drawn struct {
	*testing.T
	draws   *rand.Rand
	roots   []string // a folder for each host
	allowed quota.Units
	redis   *redistest.Server // nil for a file
	url     string
	hits    atomic.Int64
	of      map[string]*atomic.Int64 // hits, by method
	lost    int64                    // how many calls may be charged and never sent

	cooldowns int
	cooled    atomic.Int64 // when the last cooldown was set, and
	warms     atomic.Int64 // when it ends, µs
	cold      atomic.Int64 // hits in between
	workers   []*worker
	log       []string // the faults, with how many calls the upstream had when they came
}

// listen starts the upstream.
func (d *drawn) listen() {
	d.of = map[string]*atomic.Int64{"m": {}, "search": {}, "list": {}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d.hits.Add(1)
		if now := time.Now().UnixMicro(); d.cooled.Load() < now && now < d.warms.Load() {
			d.cold.Add(1)
		}
		d.of[r.URL.Path[1:]].Add(1)
	}))
	d.Cleanup(s.Close)
	d.url = s.URL
}

// play lets workers spend the limit while faults come, and then what is left.
func (d *drawn) play(faults map[string]func()) {
	faults["a process killed"] = func() { d.replace(d.draws.IntN(drawnWorkers)) }
	names := slices.Sorted(maps.Keys(faults))
	for range drawnWorkers {
		d.workers = append(d.workers, d.start(len(d.workers)))
	}
	// A host that was never granted anything cannot know what a ledger has lost.
	redistest.Await(d.T, "a first call", func() bool { return d.hits.Load() > 0 })
	for range drawnFaults {
		d.reach(d.draws.IntN(80), time.Second)
		name := names[d.draws.IntN(len(names))]
		d.log = append(d.log, fmt.Sprintf("%d: %s", d.hits.Load(), name))
		faults[name]()
		d.lost += 2 * drawnWorkers * patientCallers // others noted what was in flight, and it was charged again
	}
	d.reach(1<<30, time.Until(time.UnixMicro(d.warms.Load())))
	for _, w := range d.workers {
		d.lost += w.finish()
	}
}

// reach waits for that many more calls to arrive at the upstream, but no longer
// than late.
func (d *drawn) reach(calls int, late time.Duration) {
	hits := d.hits.Load() + int64(calls)
	for end := time.Now().Add(late); d.hits.Load() < hits && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// start starts the worker with a number. The hosts take turns.
func (d *drawn) start(n int) *worker {
	env := []string{fmt.Sprintf("%s=%d %d", patientEnv, patientCallers, d.allowed)}
	if d.redis != nil {
		env = append(env, redisEnv+"="+d.redis.URL())
	}
	return startWorker(d.T, d.url, d.roots[n%len(d.roots)], append([]string{"env"}, env...)...)
}

// replace kills a worker and starts another.
func (d *drawn) replace(i int) {
	d.workers[i].kill()
	d.lost += 2 * patientCallers
	d.workers[i] = d.start(i)
}

// alone calls f while no worker runs.
func (d *drawn) alone(f func()) {
	for _, w := range d.workers {
		w.kill()
		d.lost += 2 * patientCallers
	}
	f()
	for i := range d.workers {
		d.workers[i] = d.start(i)
	}
}

// cool sets a cooldown, as another process of the host does, which lasts while
// other faults come.
func (d *drawn) cool() {
	open := func() (quota.Ledger, error) {
		return sqliteledger.Open(filepath.Join(d.roots[0], "ledger", "ration.db"), nil)
	}
	if d.redis != nil {
		open = func() (quota.Ledger, error) { return redisledger.Open(d.redis.URL(), nil) }
	}
	inner, err := open()
	if err != nil {
		return // it is damaged, and no worker has restored it yet
	}
	l := journal.New(inner, filepath.Join(d.roots[0], "journal"), &journal.Options{Budgets: patientBudgets()})
	defer l.Close()
	until := time.Now().Add(2 * time.Second)
	err = l.SetCooldown(d.Context(), quota.Cooldown{Account: account, Until: until, Reason: "maintenance"})
	if now := time.Now(); now.Before(until) && (err == nil || errors.Is(err, quota.ErrLedgerDown)) {
		d.cooldowns++
		d.cooled.Store(now.UnixMicro())
		d.warms.Store(until.UnixMicro())
	}
}

// checkCooldowns checks that only calls in flight reached the upstream during
// cooldowns.
func (d *drawn) checkCooldowns() {
	if cold, most := d.cold.Load(), int64(d.cooldowns*drawnWorkers*patientCallers); cold > most {
		d.Errorf("%d calls reached the upstream during %d cooldowns; want %d at most", cold, d.cooldowns, most)
	}
}

func (d *drawn) redisFaults() map[string]func() {
	d.redis = redistest.Start(d.T, aof...)
	change := func(change func(data, older []byte) []byte) func() {
		return func() { rewriting(change)(d.T, d.redis) }
	}
	return map[string]func(){
		"FLUSHALL": func() { d.redis.Do(d.T, "flushall") },
		"DEL of one key": func() {
			if keys := d.redis.Do(d.T, "keys", "*").([]any); len(keys) > 0 {
				d.redis.Do(d.T, "del", keys[d.draws.IntN(len(keys))])
			}
		},
		"kill -9":           func() { killed(d.T, d.redis) },
		"AOF emptied":       change(func([]byte, []byte) []byte { return nil }),
		"AOF cut in half":   change(func(data, _ []byte) []byte { return data[:len(data)/2] }),
		"AOF copied":        func() { copyAOF(d.T, d.redis) },
		"older copy of AOF": change(func(data, older []byte) []byte { return older }),
		"hangs": func() {
			d.redis.Hang(d.T)
			d.reach(1000, time.Duration(d.draws.IntN(2500))*time.Millisecond)
			d.redis.GoOn(d.T)
		},
		"down": func() {
			d.redis.Stop()
			d.reach(d.draws.IntN(100), time.Duration(d.draws.IntN(3000))*time.Millisecond)
			d.redis.Restart(d.T)
		},
	}
}

// outages are the faults of Redis after which it holds all that it held.
func (d *drawn) outages() map[string]func() {
	faults := d.redisFaults()
	return map[string]func(){"hangs": faults["hangs"], "down": faults["down"]}
}

func (d *drawn) fileFaults() map[string]func() {
	folder, copied := filepath.Join(d.roots[0], "ledger"), filepath.Join(d.roots[0], "copied")
	faults := map[string]func(){}
	for name, lose := range sqliteFaults {
		needed := []string{filepath.Join(folder, "ration.db")} // without it, nobody has called since the last fault
		if strings.HasPrefix(name, "older") {
			needed = append(needed, filepath.Join(copied, "ration.db"))
		}
		once := func() {
			for _, path := range needed {
				if _, err := os.Stat(path); err != nil {
					return
				}
			}
			_ = lose(folder, copied) // workers may have lost it first, or be creating it
		}
		faults[name] = once
		if strings.HasPrefix(name, "older") {
			faults[name] = func() {
				d.alone(func() {
					once()
					must(d.T, os.RemoveAll(copied))
					if _, err := os.Stat(folder); err == nil {
						must(d.T, os.CopyFS(copied, os.DirFS(folder)))
					}
				})
			}
		}
	}
	return faults
}
