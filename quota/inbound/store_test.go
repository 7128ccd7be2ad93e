package inbound_test

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
	"github.com/ration-dev/ration/quota/inbound/sqlitestore"
)

// clock is a clock that a test moves.
type clock struct{ nanos atomic.Int64 }

// newClock returns a clock that begins with a period of each length that
// divides a day.
func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time      { return time.Unix(0, c.nanos.Load()) }
func (c *clock) Add(d time.Duration) { c.nanos.Add(int64(d)) }

// stores open a store of each kind.
var stores = map[string]func(testing.TB) (inbound.Store, error){
	"memory": func(testing.TB) (inbound.Store, error) { return inbound.Memory(), nil },
	"SQLite": func(t testing.TB) (inbound.Store, error) {
		return sqlitestore.Open(filepath.Join(t.TempDir(), "inbound.db"))
	},
	"Redis": func(t testing.TB) (inbound.Store, error) { return redisstore.Open(servers.StartRedis(t).URL()) },
}

// eachStore runs a test on each kind of store.
func eachStore(t *testing.T, run func(*testing.T, inbound.Store)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			if closer, ok := store.(io.Closer); ok {
				t.Cleanup(func() { closer.Close() })
			}
			run(t, store)
		})
	}
}

// reference decides by all requests that it has admitted, as the comment of
// Limit says, and searches for times one by one.
type reference struct{ admitted []request }

type request struct{ at, cost int64 } // at is in microseconds

// used returns what a limit holds at a time.
func (f *reference) used(at int64, limit inbound.Limit) (used int64) {
	per := limit.Per.Microseconds()
	if !limit.Estimate {
		for _, r := range f.admitted {
			if r.at > at-per {
				used += r.cost
			}
		}
		return used
	}
	var previous int64
	for _, r := range f.admitted {
		switch at/per - r.at/per {
		case 0:
			used += r.cost
		case 1:
			previous += r.cost
		}
	}
	length := limit.Per.Milliseconds()
	weighted := new(big.Rat).SetFrac64(previous*(length-at%per/1000), length)
	rounded := int64(0)
	for big.NewRat(rounded, 1).Cmp(weighted) < 0 {
		rounded++
	}
	return used + rounded
}

// falls returns the first time from at on at which a limit holds at most most,
// if nothing else comes.
func (f *reference) falls(at, most int64, limit inbound.Limit) int64 {
	if f.used(at, limit) <= most {
		return at
	}
	if !limit.Estimate {
		for _, r := range f.admitted {
			if after := r.at + limit.Per.Microseconds(); after > at && f.used(after, limit) <= most {
				return after
			}
		}
	}
	for ms := at/1000 + 1; ; ms++ {
		if f.used(1000*ms, limit) <= most {
			return 1000 * ms
		}
	}
}

// standing returns what a store must answer after it has decided.
func (f *reference) standing(at, cost int64, limit inbound.Limit) (s inbound.WindowUsage) {
	if s.Used = f.used(at, limit); s.Used > 0 {
		s.NextFree = f.falls(at, s.Used-1, limit)
	}
	if fits := f.falls(at, limit.Calls-cost, limit); fits > at {
		s.RetryAt = fits
	}
	return s
}

// drawLimits draws one to three limits of either kind, short enough to search
// each of their milliseconds.
func drawLimits(t *rapid.T) []inbound.Limit {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) inbound.Limit {
		limit := inbound.Limit{
			Calls:    rapid.Int64Range(1, 12).Draw(t, "calls"),
			Per:      time.Duration(rapid.IntRange(1, 40).Draw(t, "ms")) * time.Millisecond,
			Estimate: rapid.Bool().Draw(t, "estimate"),
		}
		if !limit.Estimate {
			limit.Per += time.Duration(rapid.IntRange(0, 999).Draw(t, "µs")) * time.Microsecond
		}
		return limit
	}), 1, 3, func(l inbound.Limit) string { return fmt.Sprint(l.Calls, l.Per) }).Draw(t, "limits")
}

// TestStoresDecideAsTheReference: for requests, costs, times and limits of both
// kinds that rapid draws, each store admits what the reference admits, and says
// the same of what is used, when that falls, and when a refused request fits.
func TestStoresDecideAsTheReference(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		draws := 0
		rapid.Check(t, func(t *rapid.T) {
			draws++
			limits, now := drawLimits(t), newClock().Now().UnixMicro()
			most := limits[0].Calls
			for _, limit := range limits {
				most = min(most, limit.Calls)
			}
			clients := []*reference{{}, {}}
			for range rapid.IntRange(1, 40).Draw(t, "requests") {
				now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 5_000),
					rapid.Int64Range(0, 60_000)).Draw(t, "later")
				i, cost := rapid.IntRange(0, 1).Draw(t, "client"), rapid.Int64Range(1, most).Draw(t, "cost")
				r := &inbound.Request{Client: fmt.Sprint(draws, " of ", i), Limits: limits, Cost: cost, At: now}
				retry := check(t, store, r, clients[i])
				if retry > 0 && rapid.Bool().Draw(t, "wait") {
					if r.At = retry - 1; r.At > now && check(t, store, r, clients[i]) == 0 {
						t.Fatal("admitted a microsecond before its time")
					}
					if r.At, now = retry, retry; check(t, store, r, clients[i]) != 0 {
						t.Fatal("refused after it has waited")
					}
				}
			}
		})
	})
}

// check counts a request in a store and in the reference, and compares them. It
// returns the latest time at which a limit admits the request, or 0 if it
// was admitted.
func check(t *rapid.T, store inbound.Store, r *inbound.Request, f *reference) (retry int64) {
	answer, err := store.Count(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range r.Limits {
		retry = max(retry, f.standing(r.At, r.Cost, limit).RetryAt)
	}
	cost := r.Cost
	if retry == 0 {
		f.admitted = append(f.admitted, request{r.At, r.Cost})
		cost = 0
	}
	if answer.Admitted != (retry == 0) || answer.At != r.At {
		t.Fatalf("%+v at %d: %+v; want admitted %t", *r, r.At, *answer, retry == 0)
	}
	for i, limit := range r.Limits {
		if want := f.standing(r.At, cost, limit); answer.WindowUsages[i] != want {
			t.Fatalf("%+v: %+v; want %+v", limit, answer.WindowUsages[i], want)
		}
	}
	return retry
}

// TestErrorOfAnEstimateIsBounded: the estimate differs from what the window
// really holds by less than the previous count and 1 for rounding up, and the
// window never holds more than 1+f times the limit at a fraction f of the
// period.
func TestErrorOfAnEstimateIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, f, now := inbound.Memory(), &reference{}, newClock().Now().UnixMicro()
		const per = 20_000 // µs
		limit := inbound.Limit{Calls: rapid.Int64Range(1, 50).Draw(t, "calls"), Per: 20 * time.Millisecond,
			Estimate: true}
		for range 100 {
			now += rapid.Int64Range(0, 3_000).Draw(t, "later")
			r := &inbound.Request{Client: "a", Limits: []inbound.Limit{limit},
				Cost: rapid.Int64Range(1, limit.Calls).Draw(t, "cost"), At: now}
			answer, err := store.Count(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Admitted {
				f.admitted = append(f.admitted, request{now, r.Cost})
			}
			var previous int64
			for _, r := range f.admitted {
				if r.at/per == now/per-1 {
					previous += r.cost
				}
			}
			exact := f.used(now, inbound.Limit{Per: limit.Per})
			if off := answer.WindowUsages[0].Used - exact; off > previous || off < min(0, 1-previous) {
				t.Fatalf("estimate %d, exactly %d, previous count %d", answer.WindowUsages[0].Used, exact, previous)
			}
			if exact*per > limit.Calls*(per+now%per) {
				t.Fatalf("the window holds %d of %d at %d of %d", exact, limit.Calls, now%per, per)
			}
		}
	})
}

// both are limits of both kinds.
func both(calls int64, per time.Duration) []inbound.Limit {
	return []inbound.Limit{{Calls: calls, Per: per}, {Calls: calls + 1, Per: per, Estimate: true}}
}

// TestConcurrentRequestsGetExactlyTheLimit: of requests that come at once,
// exactly the limit is admitted.
func TestConcurrentRequestsGetExactlyTheLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		var admitted atomic.Int64
		each(8, 160, func(int) {
			r := &inbound.Request{Client: "a", Limits: both(60, time.Hour), Cost: 1}
			answer, err := store.Count(context.Background(), r)
			if err != nil {
				t.Error(err)
			} else if answer.Admitted {
				admitted.Add(1)
			}
		})
		if n := admitted.Load(); n != 60 {
			t.Errorf("%d admitted; want 60", n)
		}
	})
}

// storeFile makes this test binary a process of TestProcessesShareAFile.
const storeFile = "INBOUND_STORE_FILE"

// TestProcessesShareAFile: four processes on one SQLite file together admit
// exactly the limit.
func TestProcessesShareAFile(t *testing.T) {
	if path := os.Getenv(storeFile); path != "" {
		for range 40 {
			store, err := sqlitestore.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := store.Count(t.Context(),
				&inbound.Request{Client: "a", Limits: both(100, time.Hour), Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Admitted {
				fmt.Println("admitted")
			}
			store.Close()
		}
		return
	}
	path, total := filepath.Join(t.TempDir(), "inbound.db"), atomic.Int64{}
	var processes sync.WaitGroup
	for range 4 {
		processes.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestProcessesShareAFile$")
			cmd.Env = append(os.Environ(), storeFile+"="+path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			total.Add(int64(countLines(string(out), "admitted")))
		})
	}
	processes.Wait()
	if n := total.Load(); n != 100 {
		t.Errorf("%d admitted; want 100", n)
	}
}

// TestALockedFileHoldsNoRequestBeyondItsContext: a request waits for another
// process's lock no longer than its context.
func TestALockedFileHoldsNoRequestBeyondItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbound.db")
	store, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	unlock := lock(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := &inbound.Request{Client: "a", Limits: both(1, time.Hour), Cost: 1}
	if answer, err := store.Count(ctx, r); err == nil {
		t.Errorf("%+v; want an error", answer)
	}
	unlock()
	if answer, err := store.Count(t.Context(), r); err != nil || !answer.Admitted {
		t.Errorf("%+v, %v after the lock; want that it was not counted before", answer, err)
	}
}

// TestAClockThatStepsBackFreesNothingEarly: a clock that steps back frees
// nothing early, and a client is not held up for longer than the step and a
// window; after a step of more than a window it starts anew.
func TestAClockThatStepsBackFreesNothingEarly(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		now := newClock().Now().Add(30 * time.Second).UnixMicro()
		count := func(at int64) *inbound.Answer {
			t.Helper()
			answer, err := store.Count(t.Context(), &inbound.Request{Client: "a", Limits: both(2, time.Minute), Cost: 1,
				At: at})
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		minute := time.Minute.Microseconds()
		count(now)
		if a := count(now - 50*1e6); !a.Admitted || a.WindowUsages[0].Used != 2 || a.WindowUsages[1].Used != 2 {
			t.Errorf("50 seconds earlier: %+v; want both requests counted", *a)
		}
		if a := count(now - 50*1e6); a.Admitted || a.WindowUsages[0].RetryAt != now+minute {
			t.Errorf("a third one: %+v; want it refused until %d", *a, now+minute)
		}
		if a := count(now - 3*minute); !a.Admitted || a.WindowUsages[0].Used != 1 || a.WindowUsages[1].Used != 1 {
			t.Errorf("three minutes earlier: %+v; want that it starts anew", *a)
		}
	})
}

// TestARequestWithoutATimeHasTheStoresClock: a request without a time is
// decided by the clock of the store.
func TestARequestWithoutATimeHasTheStoresClock(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		before := time.Now().UnixMicro()
		for i := range 2 {
			answer, err := store.Count(t.Context(), &inbound.Request{Client: "a", Limits: both(1, 24*time.Hour),
				Cost: 1})
			if err != nil || answer.Admitted != (i == 0) || answer.At < before || answer.At > time.Now().UnixMicro() {
				t.Fatalf("request %d: %+v, %v", i, answer, err)
			}
		}
	})
}

// TestNamesSeparateLimiters: limiters of different names count separately,
// those of one name together, also if their routes fail differently.
func TestNamesSeparateLimiters(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		limit := inbound.Limit{Calls: 2, Per: time.Hour}
		a := serve(t, store, &inbound.Options{Name: "a}", Client: inbound.Header("Client")}, limit)
		same := serve(t, store, &inbound.Options{Name: "a}", Client: inbound.Header("Client"), FailClosed: true}, limit)
		other := serve(t, store, &inbound.Options{Name: "a", Client: inbound.Header("Client")}, limit)
		if n, m, o := a.burst("}:x", 1), same.burst("}:x", 3), other.burst("}:x", 3); n != 1 || m != 1 || o != 2 {
			t.Errorf("%d, %d and %d passed; want 1, 1 and 2", n, m, o)
		}
	})
}
