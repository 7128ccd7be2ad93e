package quota_test

import (
	"context"
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

// arrivals is an upstream that counts calls when they arrive, by its own clock.
type arrivals struct {
	skew time.Duration
	mu   sync.Mutex
	at   []time.Time
}

func (a *arrivals) call(latency time.Duration) {
	time.Sleep(latency)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Now().Add(a.skew))
}

// most returns the most calls within any trailing window of the given length.
func (a *arrivals) most(length time.Duration) (most int) {
	slices.SortFunc(a.at, time.Time.Compare)
	first := 0
	for i, at := range a.at {
		for at.Sub(a.at[first]) >= length {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// TestAnUpstreamThatCountsLaterSeesNoMore: an upstream allows 50 calls in 2
// seconds, counts them when they arrive, up to 20 ms after they were granted,
// and its clock is 3 seconds fast. With a margin of 20 ms it sees exactly 50.
func TestAnUpstreamThatCountsLaterSeesNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls one after the other")
	}
	const limit, length, latency = 50, 2 * time.Second, 20 * time.Millisecond
	seen := map[time.Duration]int{}
	for _, margin := range []time.Duration{0, 5 * time.Millisecond, latency} {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				budgets := []quota.Budget{{Name: "burst", Account: "a", Limit: limit,
					Window: quota.Sliding(length).WithMargin(margin)}}
				guard, err := quota.NewGuard(memledger.Open(nil), budgets, nil)
				if err != nil {
					t.Fatal(err)
				}
				up := arrivals{skew: 3 * time.Second}
				var calls sync.WaitGroup
				for range 20 * limit {
					_, err := guard.Wait(context.Background(), quota.Call{Account: "a", Method: "m", Units: 1},
						time.Minute)
					if errors.Is(err, quota.ErrRefused) {
						t.Fatal(err)
					}
					on := time.Duration(random.Int64N(int64(latency)))
					calls.Go(func() { up.call(on) })
				}
				calls.Wait()
				seen[margin] = max(seen[margin], up.most(length))
			})
		}
	}
	t.Logf("most calls in %s of a limit of %d, by margin: %v", length, limit, seen)
	if seen[0] <= limit || seen[latency] != limit {
		t.Errorf("most calls in %s, by margin: %v; want more than %d with none, and %d with %s", length, seen, limit,
			limit, latency)
	}
}
