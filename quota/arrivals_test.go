package quota_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// jittered is an upstream that decides by itself which calls it serves, when
// they arrive.
type jittered struct {
	mu      sync.Mutex
	serves  func(at time.Time) bool
	served  int
	refused int
}

// send sends a call, which takes up to slowest to arrive.
func (a *jittered) send(calls *sync.WaitGroup, slowest time.Duration) {
	delay := rand.N(slowest)
	calls.Go(func() {
		time.Sleep(delay)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.serves(time.Now()) {
			a.served++
		} else {
			a.refused++
		}
	})
}

// bucketOf serves calls from a bucket of a size that gets back a unit in each
// time.
func bucketOf(size float64, unit time.Duration) func(time.Time) bool {
	var last time.Time
	left := size
	return func(at time.Time) bool {
		if !last.IsZero() {
			left = min(size, left+float64(at.Sub(last))/float64(unit))
		}
		last = at
		if left < 1-1e-9 {
			return false
		}
		left--
		return true
	}
}

// trailing serves limit calls in any time of a length.
func trailing(limit int, length time.Duration) func(time.Time) bool {
	var times []time.Time
	return func(at time.Time) bool {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return at.Sub(t) >= length })
		if len(times) >= limit {
			return false
		}
		times = append(times, at)
		return true
	}
}

// TestABucketIsFollowedForAnHour of drawn traffic: the upstream refuses
// nothing, and no call waits for longer than its bucket takes, and the margin.
func TestABucketIsFollowedForAnHour(t *testing.T) {
	const unit, margin = 59_880_240 * time.Microsecond, 100 * time.Millisecond
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			window := quota.Bucket(1, unit).WithMargin(margin)
			guard := newGuard(t, nil, quota.Budget{Account: account, Name: "orders", Limit: 20, Window: window})
			upstream := &jittered{serves: bucketOf(20, unit)}
			own := bucketOf(20, unit) // of the same calls, which arrive at once
			var calls sync.WaitGroup
			for end := time.Now().Add(time.Hour); time.Now().Before(end); {
				if rand.N(40) == 0 {
					time.Sleep(rand.N(20 * time.Minute))
				}
				asked := time.Now()
				if _, err := guard.Wait(t.Context(), call("m", 1), time.Hour); err != nil {
					t.Fatal(err)
				}
				waited := time.Since(asked)
				if !own(time.Now()) {
					t.Fatalf("round %d: granted before a unit had returned", round)
				}
				if waited > unit+margin {
					t.Errorf("round %d: a call waited for %s; want at most %s", round, waited, unit)
				}
				upstream.send(&calls, margin)
			}
			calls.Wait()
			if upstream.refused > 0 || upstream.served == 0 {
				t.Errorf("round %d: the upstream refused %d of %d calls", round, upstream.refused,
					upstream.served+upstream.refused)
			}
		})
	}
}

// TestAnUpstreamThatAllowsTenASecondRefusesNone, with the margin of costs.yaml:
// an upstream that counts calls when they arrive refuses none.
func TestAnUpstreamThatAllowsTenASecondRefusesNone(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls one after the other")
	}
	synctest.Test(t, func(t *testing.T) {
		margin := quota.Sliding(time.Second).ArrivalMargin()
		ledger := memledger.Open(nil)
		second := budget("second", 10, time.Second)
		second.Window = second.Window.WithMargin(margin)
		upstream := &jittered{serves: trailing(10, time.Second)}
		var calls sync.WaitGroup
		for range 2 {
			guard := process(t, ledger, nil, second)
			calls.Go(func() {
				for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); {
					if rand.N(100) == 0 {
						time.Sleep(rand.N(3 * time.Second))
					}
					if _, err := guard.Wait(t.Context(), call("m", 1), time.Minute); err != nil {
						t.Error(err)
						return
					}
					upstream.send(&calls, margin)
				}
			})
		}
		calls.Wait()
		if upstream.refused > 0 || upstream.served < 10_000 {
			t.Errorf("the upstream served %d calls and refused %d", upstream.served, upstream.refused)
		}
	})
}

// TestWindowsOnTheClockAdmitTheirLimitOnce admit their limits once in each, as
// upstreams count that reset on the clock.
func TestWindowsOnTheClockAdmitTheirLimitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01 00:00 UTC on
		quarter := quota.Budget{Account: account, Name: "quarter", Limit: 100, Window: quota.Every(15 * time.Minute)}
		day := quota.Budget{Account: account, Name: "day", Limit: 1000, Window: quota.Daily(time.UTC)}
		month := quota.Budget{Account: account, Name: "month", Limit: 2500, Window: quota.Monthly(time.UTC).From(12)}
		guard := newGuard(t, nil, quarter, day, month)
		periods := map[string]int{}
		for end := time.Now().Add(20 * 24 * time.Hour); time.Now().Before(end); {
			_, err := guard.Spend(t.Context(), call("m", 1))
			if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
				time.Sleep(refused.RetryAfter)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now().UTC()
			periods["quarter "+now.Truncate(15*time.Minute).String()]++
			periods["day "+now.Format(time.DateOnly)]++
			periods["month "+now.AddDate(0, 0, -11).Format("2006-01")]++
		}
		most := map[string]int{}
		for period, n := range periods {
			kind := period[:3]
			most[kind] = max(most[kind], n)
		}
		if most["qua"] != 100 || most["day"] != 1000 || most["mon"] != 2500 {
			t.Errorf("the most in a quarter, a day and a month are %v; want 100, 1000 and 2500", most)
		}
	})
}
