package quota_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// process returns the guard of one more process on a ledger.
func process(t *testing.T, ledger quota.Ledger, priority func(account, lane string) int,
	budgets ...quota.Budget) *quota.Guard {
	t.Helper()
	guard, err := quota.NewGuard(ledger, budgets, &quota.Options{Priority: priority})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestWaitingProcessesTakeTurns: more processes wait than the window has room
// for. Each window's worth is granted as soon as it returns.
func TestWaitingProcessesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		began := time.Now()
		var mu sync.Mutex
		var waited []time.Duration
		var calls sync.WaitGroup
		for range 9 {
			calls.Go(func() {
				guard := process(t, ledger, nil, budget("short", 3, 3*time.Second))
				if _, err := guard.Wait(t.Context(), call("m", 1), 30*time.Second); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				waited = append(waited, time.Since(began))
			})
		}
		calls.Wait()
		for i, took := range waited {
			if window := time.Duration(i/3) * 3 * time.Second; took < window || took > window+time.Second {
				t.Errorf("call %d waited %s; want %s, and no more than a second longer", i+1, took, window)
			}
		}
	})
}

// TestHigherLanesAreGrantedFirst over all processes.
func TestHigherLanesAreGrantedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		priority := func(_, lane string) int { return map[string]int{"cron": 2, "manual": 1}[lane] }
		var mu sync.Mutex
		var order []string
		var calls sync.WaitGroup
		for _, lane := range []string{"", "backfill", "manual", "cron"} {
			calls.Go(func() {
				guard := process(t, ledger, priority, budget("short", 1, 4*time.Second))
				ctx := quota.WithCaller(t.Context(), quota.Caller{Lane: lane})
				if _, err := guard.Wait(ctx, call("m", 1), time.Minute); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, lane)
			})
			time.Sleep(100 * time.Millisecond)
		}
		calls.Wait()
		if want := []string{"", "cron", "manual", "backfill"}; !slices.Equal(order, want) {
			t.Errorf("granted %q; want %q", order, want)
		}
	})
}

// TestATicketHoldsAPlace: what fits only without a waiting call is refused for
// a moment, and granted once that call gives up.
func TestATicketHoldsAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		large, small := process(t, ledger, nil, budget("day", 10, 8*time.Second)),
			process(t, ledger, nil, budget("day", 10, 8*time.Second))
		if _, err := small.Spend(t.Context(), call("m", 5)); err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { large.Wait(ctx, call("m", 10), time.Minute) })
		time.Sleep(time.Second)
		_, err := small.Spend(t.Context(), call("m", 1))
		no, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || no.RetryAfter > time.Second {
			t.Fatalf("beside a call that waits: %v; want a refusal for a second at most", err)
		}
		if _, err := large.Wait(t.Context(), call("m", 11), time.Minute); err == nil {
			t.Fatal("a call of more than the limit was granted")
		}
		giveUp()
		calls.Wait()
		time.Sleep(time.Second)
		if _, err := small.Spend(t.Context(), call("m", 1)); err != nil {
			t.Errorf("once the waiting call has left: %v", err)
		}
	})
}

// TestATicketLeavesFloorsAlone: a region's floor is there for it while others
// wait for more than they can have.
func TestATicketLeavesFloorsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		floored := budget("day", 10, 8*time.Second)
		floored.Floor = map[string]quota.Units{"IN": 5}
		here, there := process(t, ledger, nil, floored), process(t, ledger, nil, floored)
		us := quota.WithCaller(t.Context(), quota.Caller{Region: "US"})
		if _, err := here.Spend(us, call("m", 5)); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := here.Wait(us, call("m", 5), time.Minute); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if _, err := there.Spend(quota.WithCaller(t.Context(), quota.Caller{Region: "IN"}), call("m", 5)); err != nil {
			t.Errorf("within its floor: %v", err)
		}
		calls.Wait()
	})
}
