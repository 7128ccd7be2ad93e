package quota_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestTheStopOfABudgetIsTriedByOneCaller: one call is the trial of a budget's
// stop, as for an account's.
func TestTheStopOfABudgetIsTriedByOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
		var hits atomic.Int32
		transport := &quota.Transport{Guard: guard, Price: priced(1), MaxWait: time.Minute,
			Base: statusTripper(func(*http.Request) int {
				hits.Add(1)
				time.Sleep(time.Second)
				return http.StatusTooManyRequests
			}),
			Feedback: func(c quota.Call, r *http.Response) quota.Verdict {
				v := stopFor(30*time.Second)(c, r)
				v.Budget = "day"
				return v
			}}
		client := &http.Client{Transport: transport}
		if _, err := getStatus(client); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { getStatus(client) })
		}
		wg.Wait()
		if hits.Load() > 2 { // the next stop is longer than a minute
			t.Errorf("%d requests were stopped; want the first, and one that asked again", hits.Load())
		}
	})
}

// TestACallThatWaitedForRoomMeetsALaterStop: a stop came and went while a call
// waited for its budget. The call is not a trial, and is stopped too.
func TestACallThatWaitedForRoomMeetsALaterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, hits := newGuard(t, nil, budget("short", 1, 10*time.Second)), 0
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), MaxWait: time.Minute,
			Feedback: stopFor(3 * time.Second),
			Base: statusTripper(func(*http.Request) int {
				hits++
				time.Sleep(
					time.Second)
				return http.StatusTooManyRequests
			})}}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if status, err := getStatus(client); err != nil || status != http.StatusTooManyRequests {
					t.Errorf("status %d, %v", status, err)
				}
			})
		}
		wg.Wait()
		balances, err := guard.Balances(t.Context())
		if err != nil || hits != 2 || balances[0].Cooldown == nil {
			t.Fatalf("%+v, %v after %d requests; want a cooldown after 2", balances, err, hits)
		}
		if left := time.Until(balances[0].Cooldown.Until); left != 6*time.Second {
			t.Errorf("a cooldown of %s; want twice that of the first stop", left)
		}
	})
}
