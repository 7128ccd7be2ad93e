package quota_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// fixedWindow is the usual first attempt: a counter that is set to zero
// whenever the clock shows a new minute.
type fixedWindow struct{ minute, used, limit int64 }

func (f *fixedWindow) allow(now time.Time) bool {
	if minute := now.Unix() / 60; minute != f.minute {
		f.minute, f.used = minute, 0
	}
	f.used++
	return f.used <= f.limit
}

// Two bursts of 50 calls, two seconds apart, are on both sides of a minute's
// boundary, with a limit of 50 a minute. A counter that is reset at the
// boundary admits both; a sliding window admits 50 calls in any minute.
func Example_boundary() {
	fixed, sliding := acrossABoundary()
	fmt.Printf("fixed window: %d of 50, sliding window: %d of 50\n", fixed, sliding)
	// Output: fixed window: 100 of 50, sliding window: 50 of 50
}

// TestSlidingWindowHoldsAcrossABoundary shows the example's result under
// go test -v.
func TestSlidingWindowHoldsAcrossABoundary(t *testing.T) {
	fixed, sliding := acrossABoundary()
	t.Logf("fixed window: %d of 50, sliding window: %d of 50", fixed, sliding)
	if fixed != 100 || sliding != 50 {
		t.Error("want 100 and 50")
	}
}

// acrossABoundary returns how many calls a fixed and a sliding window admit.
func acrossABoundary() (fixed, sliding int) {
	clock := &ledgertest.Clock{}
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: clock.Now}), []quota.Budget{
		{Account: "my-project", Name: "minute", Limit: 50, Window: quota.Sliding(time.Minute)},
	}, nil)
	if err != nil {
		panic(err)
	}
	counter := &fixedWindow{limit: 50}
	boundary := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{boundary.Add(-time.Second), boundary.Add(time.Second)} {
		clock.Set(at)
		for range 50 {
			if counter.allow(at) {
				fixed++
			}
			if _, err := guard.Spend(context.Background(),
				quota.Call{Account: "my-project", Method: "videos.list", Units: 1}); err == nil {
				sliding++
			}
		}
	}
	return fixed, sliding
}
