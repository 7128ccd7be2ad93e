package quota_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

func TestAWaitThatWouldBeTooLongIsRefusedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		limit    time.Duration
		deadline time.Duration // of the context; 0 for none
		waits    time.Duration
		refused  bool
	}{
		{"never waits with 0", 0, 0, 0, true},
		{"nor with less", -time.Second, 0, 0, true},
		{"as long as needed", time.Minute, 0, time.Minute, false},
		{"refused at once when longer", time.Minute - 1, 0, 0, true},
		{"refused at once when it would outlast the deadline", time.Hour, 59 * time.Second, 0, true},
		{"within the deadline", time.Hour, 61 * time.Second, time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guard := newGuard(t, nil, budget("day", 10, time.Minute))
				guard.Spend(t.Context(), call("m", 10))
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				began := time.Now()
				_, err := guard.Wait(ctx, call("m", 1), c.limit)
				if errors.Is(err, quota.ErrRefused) != c.refused || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v; want refused %t", err, c.refused)
				}
				if took := time.Since(began); took != c.waits {
					t.Errorf("took %s; want %s", took, c.waits)
				}
			})
		})
	}
}

func TestWaitStopsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 10, time.Minute))
		guard.Spend(t.Context(), call("m", 10))
		why := errors.New("the run was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := guard.Wait(ctx, call("m", 1), time.Hour); !errors.Is(err, why) {
			t.Errorf("got %v; want the cause", err)
		}
		if got := used(t, guard); got != 10 {
			t.Errorf("used %d; a wait that was stopped must not be charged", got)
		}
	})
}

// TestSmallCallsDoNotStarveALargeOne lets one call of 10, or 10 together, wait
// while calls of 1 keep coming: each unit that returns would go to one of
// those.
func TestSmallCallsDoNotStarveALargeOne(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *quota.Guard) error{
		"one": func(ctx context.Context, guard *quota.Guard) error {
			_, err := guard.Wait(ctx, call("large", 10), 2*time.Minute)
			return err
		},
		"together": func(ctx context.Context, guard *quota.Guard) error {
			_, err := guard.SpendTogether(ctx, call("large", 1), 10, 2*time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { starve(t, wait) })
	}
}

// starve lets small calls come while a large one waits.
func starve(t *testing.T, wait func(context.Context, *quota.Guard) error) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 10, time.Minute))
		for range 10 { // a unit returns each second from 60 s on
			guard.Spend(t.Context(), call("small", 1))
			time.Sleep(time.Second)
		}
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := wait(t.Context(), guard); err != nil {
				t.Errorf("the large call: %v", err)
			}
			if took := time.Since(began); took != 59*time.Second {
				t.Errorf("the large call waited %s; want until the last unit is back, 59s", took)
			}
		})
		for range 20 {
			time.Sleep(time.Second)
			wg.Go(func() {
				_, err := guard.Wait(t.Context(), call("small", 1), 4*time.Minute)
				if err != nil {
					t.Errorf("a small call: %v", err)
				}
				if took := time.Since(began); took < 59*time.Second {
					t.Errorf("a small call overtook the large one after %s", took)
				}
			})
		}
		synctest.Wait()
		asked := time.Now()
		caller := quota.Caller{Lane: "cron", Job: "j", Region: "IN"}
		_, err := guard.Wait(quota.WithCaller(t.Context(), caller), call("small", 1), time.Second)
		no, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || no.Caller != caller || no.Reason != quota.ReasonQueue || !time.Now().Equal(asked) ||
			no.RetryAfter != 39*time.Second || !no.RetryAt.Equal(asked.Add(39*time.Second)) {
			t.Errorf("behind a call that waits 39s longer: %v after %s, retry after %s; want refused at once, for "+
				"the queue", err, time.Since(asked), no.RetryAfter)
		}
		wg.Wait()
	})
}

// unitsThatReturnEarlyCases are the cases of
// TestUnitsThatReturnEarlyAreGrantedSoon.
var unitsThatReturnEarlyCases = map[string]func(*quota.Guard, *quota.Grant) error{
	"a refund": func(_ *quota.Guard,
		grant *quota.Grant) error {
		return grant.Refund(context.Background())
	},
	"a cooldown is lifted": func(g *quota.Guard,
		_ *quota.Grant) error {
		return g.ClearCooldown(context.Background(), account, "")
	},
}

// TestUnitsThatReturnEarlyAreGrantedSoon: calls that wait for a far time are
// granted soon after another process makes room for them.
func TestUnitsThatReturnEarlyAreGrantedSoon(t *testing.T) {
	for name, makeRoom := range unitsThatReturnEarlyCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := openMemory(t)
				here, there := openGuard(t, open, budget("day", 10, time.Hour)),
					openGuard(t, open, budget("day", 10, time.Hour))
				grant, err := there.Spend(t.Context(), call("m", 10))
				if err != nil {
					t.Fatal(err)
				}
				if name != "a refund" {
					grant.Refund(t.Context())
					there.Cool(t.Context(), quota.Cooldown{Account: account, Until: time.Now().Add(time.Hour)})
				}
				began := time.Now()
				var calls sync.WaitGroup
				for range 2 { // the second waits behind the first
					calls.Go(func() {
						if _, err := here.Wait(t.Context(), call("m", 1), 2*time.Hour); err != nil {
							t.Error(err)
						}
					})
				}
				client := &http.Client{Transport: &quota.Transport{Guard: here, Price: priced(1),
					MaxWait: 2 * time.Hour, Feedback: stopFor(time.Minute),
					Base: statusTripper(func(*http.Request) int { return http.StatusOK })}}
				calls.Go(func() {
					if _, err := getStatus(client); err != nil {
						t.Error(err)
					}
				})
				calls.Go(func() {
					if _, err := here.SpendTogether(t.Context(), call("m", 1), 3, 2*time.Hour); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Minute)
				if err := makeRoom(there, grant); err != nil {
					t.Fatal(err)
				}
				calls.Wait()
				if took := time.Since(began); took > time.Minute+10*time.Second {
					t.Errorf("waited %s; want no more than 10s after units returned", took)
				}
				if got := used(t, here); got != 6 {
					t.Errorf("used %d; want 6", got)
				}
			})
		})
	}
}
