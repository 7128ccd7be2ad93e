package quota_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

// script is a program that asks before its call, which it sends by itself, and
// reports the answer, perhaps to another process than granted the call.
type script struct {
	asks, reports *quota.Transport
}

func newScript(t *testing.T, open func() (quota.Ledger, error), stop time.Duration) *script {
	process := func() *quota.Transport { return &quota.Transport{Guard: openGuard(t, open), Feedback: stopFor(stop)} }
	return &script{process(), process()}
}

var reportedCall = quota.Call{Account: account, Method: "m", Units: 1}

func (s *script) spend(t *testing.T, count int, limit time.Duration) ([]*quota.Grant, error) {
	return s.asks.SpendTogether(t.Context(), reportedCall, count, limit)
}

// redeem returns the grant as a process sees it that has only its token.
func (s *script) redeem(t *testing.T, grant *quota.Grant) *quota.Grant {
	t.Helper()
	redeemed, err := s.reports.Guard.Redeem(grant.Token())
	if err != nil {
		t.Fatal(err)
	}
	return redeemed
}

func (s *script) report(t *testing.T, grant *quota.Grant, status int) {
	t.Helper()
	redeemed := s.redeem(t, grant)
	if _, err := s.reports.Answered(t.Context(), redeemed.Call(), redeemed,
		&http.Response{StatusCode: status, Body: http.NoBody}); err != nil {
		t.Error(err)
	}
}

// run spends, calls and reports until the upstream accepts a call.
func (s *script) run(t *testing.T, count int, stop time.Duration, call func() int) {
	for {
		grants, err := s.spend(t, count, 100*stop)
		if err != nil {
			t.Error(err)
			return
		}
		status := call()
		s.report(t, grants[0], status)
		if status == http.StatusOK {
			return
		}
	}
}

// TestOneReportingScriptAtATimeTries: of scripts that wait for the end of
// a cooldown, one at a time finds out whether the upstream accepts calls again,
// in one process and in several, whichever process gets the report.
func TestOneReportingScriptAtATimeTries(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for cooldowns")
	}
	for name, oneProcess := range map[string]bool{"one process": true, "five processes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyLedger(t, func(t *testing.T, open func() (quota.Ledger, error), stop time.Duration) {
				var stops atomic.Int32
				var began time.Time
				upstream := func() int {
					if time.Since(began) < 5*stop {
						stops.Add(1)
						return http.StatusTooManyRequests
					}
					return http.StatusOK
				}
				scripts := []*script{newScript(t, open, stop)}
				for range 4 {
					if oneProcess {
						scripts = append(scripts, scripts[0])
					} else {
						scripts = append(scripts, newScript(t, open, stop))
					}
				}
				began = time.Now()
				// all wait by then
				if err := scripts[0].asks.Guard.Cool(t.Context(),
					quota.Cooldown{Account: account, For: 3 * stop}); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				for i, s := range scripts {
					wg.Go(func() { s.run(t, 1+i%2, stop, upstream) })
				}
				wg.Wait()
				took, isFake := time.Since(began), stop == 3*time.Second
				if stops.Load() > 2 || isFake && took > 7*stop { // stops of 3, 1 and 2 times what the upstream says
					t.Errorf("%d calls found the stop, and all was done after %s; want at most 2, and %s", stops.Load(),
						took, 7*stop)
				}
			})
		})
	}
}

// fakeLedgers runs a test on the ledgers whose clock is this process's, in
// fake time.
func fakeLedgers(t *testing.T, run func(*testing.T, func() (quota.Ledger, error))) {
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			opened := open(t)
			synctest.Test(t, func(t *testing.T) { run(t, opened) })
		})
	}
}

// TestASilentScriptHoldsUpOthersForTenSeconds: for 10 s after the cooldown, not
// longer and not one after another.
func TestASilentScriptHoldsUpOthersForTenSeconds(t *testing.T) {
	fakeLedgers(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		shared := newScript(t, open, time.Second)
		if err := shared.asks.Guard.Cool(t.Context(),
			quota.Cooldown{Account: account, For: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var early, late atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			s := shared
			if i%2 == 0 {
				s = newScript(t, open, time.Second)
			}
			wg.Go(func() {
				_, err := s.spend(t, 1, time.Minute)
				switch took := time.Since(began); {
				case err != nil:
					t.Error(err)
				case took < 4*time.Second:
					early.Add(1)
				case took > 12*time.Second && took < 14*time.Second:
					late.Add(1)
				default:
					t.Errorf("granted after %s", took)
				}
			})
		}
		wg.Wait()
		if early.Load() != 1 || late.Load() != 5 {
			t.Errorf("%d granted at once, %d after 10 s; want 1 and 5", early.Load(), late.Load())
		}
	})
}

// TestASettledTrialLetsOthersGoOn: a trial that is settled, refunded or
// answered lets others go on at once, and only a refunded one is tried again.
func TestASettledTrialLetsOthersGoOn(t *testing.T) {
	fakeLedgers(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		for end, want := range map[string]int{"settled": 3, "refunded": 1, "answered": 3} {
			first := newScript(t, open, time.Second)
			if err := first.asks.Guard.Cool(t.Context(),
				quota.Cooldown{Account: account, For: 3 * time.Second}); err != nil {
				t.Fatal(err)
			}
			grants, err := first.spend(t, 1, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			var granted atomic.Int32
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := first.spend(t, 1, 5*time.Second); err == nil {
						granted.Add(1)
					} else if !errors.Is(err, quota.ErrRefused) {
						t.Error(err)
					}
				})
			}
			time.Sleep(time.Second)
			if granted.Load() != 0 {
				t.Errorf("%s: %d granted before", end, granted.Load())
			}
			switch grant := first.redeem(t, grants[0]); end {
			case "settled":
				err = grant.Settle(t.Context(), 1)
			case "refunded":
				err = grant.Refund(t.Context())
			default:
				first.report(t, grant, http.StatusOK)
			}
			wg.Wait()
			if int(granted.Load()) != want || err != nil {
				t.Errorf("%s: %d granted after it, %v; want %d", end, granted.Load(), err, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestHastyScriptIsNotHeldUp: while a trial has no answer, a call that does not
// wait is refused with a time to come back, and the same call again is not.
func TestHastyScriptIsNotHeldUp(t *testing.T) {
	fakeLedgers(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		s := newScript(t, open, 3*time.Second)
		s.reports = s.asks
		s.asks.Feedback = func(_ quota.Call, r *http.Response) (v quota.Verdict) {
			if r.StatusCode == http.StatusTooManyRequests {
				v = quota.Verdict{For: 3 * time.Second, Budget: "day", Transient: true}
			}
			return v
		}
		grants, err := s.spend(t, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.report(t, grants[0], http.StatusTooManyRequests)
		time.Sleep(3 * time.Second)
		named := reportedCall
		named.ID = quota.NameID("key", "")
		tried, err := s.asks.SpendTogether(t.Context(), named, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, err = s.spend(t, 1, 0)
		if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.RetryAfter <= 8*time.Second ||
			refused.RetryAfter > 9*time.Second {
			t.Errorf("%v; want a refusal for about 9 s", err)
		} else if refused.Used != 2 || refused.Remaining != 998 || refused.Limit != 1000 || refused.Needed != 1 {
			t.Errorf("%+v; want what the budget holds", refused)
		}
		_, err = s.spend(t, 5, 0)
		if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Used != 2 ||
			refused.Remaining != 998 || refused.Limit != 1000 {
			t.Errorf("%+v, %v; want what the budget holds", refused, err)
		}
		again, err := s.asks.SpendTogether(t.Context(), named, 1, 0)
		if err != nil || again[0].ID() != tried[0].ID() {
			t.Errorf("%v; want the grant again", err)
		}
		s.report(t, tried[0], http.StatusOK)
		time.Sleep(time.Second)
		if _, err := s.spend(t, 1, 0); err != nil {
			t.Errorf("after the answer: %v", err)
		}
	})
}
