package quota_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// stopping is an upstream whose answers stop all calls for 5 seconds until a
// given time, and succeed after it.
func stopping(until time.Time, stops, fine *atomic.Int32) tripper {
	return func(r *http.Request) (*http.Response, error) {
		status := http.StatusOK
		time.Sleep(50 * time.Millisecond)
		if time.Now().Before(until) {
			status = http.StatusTooManyRequests
			stops.Add(1)
		} else {
			fine.Add(1)
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	}
}

func stop5(_ quota.Call, r *http.Response) quota.Verdict {
	if r.StatusCode == http.StatusTooManyRequests {
		return quota.Verdict{For: 5 * time.Second, Transient: true, After: time.Microsecond}
	}
	return quota.Verdict{}
}

// TestTheEndOfACooldownIsTriedByOneCaller has 16 callers of two processes,
// which each try again as often as they may, meet an upstream that says stop.
func TestTheEndOfACooldownIsTriedByOneCaller(t *testing.T) {
	for _, c := range []struct {
		name    string
		lasts   time.Duration
		stops   int32 // at most: 16 in flight at first, then one a process each time the stop has ended
		granted bool
	}{
		{"over when it says", 5 * time.Second, 16, true},
		{"over a little later", 6 * time.Second, 18, true},
		{"over the third time", 16 * time.Second, 20, true},
		{"never over", 1000 * time.Hour, 22, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := memledger.Open(nil)
				var stops, fine, refused atomic.Int32
				base := stopping(time.Now().Add(c.lasts), &stops, &fine)
				var wg sync.WaitGroup
				for range 2 {
					guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 1000, 24*time.Hour)}, nil)
					if err != nil {
						t.Fatal(err)
					}
					client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base,
						MaxWait: 30 * time.Second, Retries: 5, Feedback: stop5}}
					for range 8 {
						wg.Go(func() {
							for range 10 {
								resp, err := client.Get("http://upstream/m")
								if errors.Is(err, quota.ErrRefused) {
									refused.Add(1)
									return
								}
								if err != nil {
									t.Error(err)
									return
								}
								resp.Body.Close()
							}
						})
					}
				}
				wg.Wait()
				if stops.Load() > c.stops || (fine.Load() > 140) != c.granted || (refused.Load() > 0) == c.granted {
					t.Errorf("%d answers said stop and %d were fine, %d callers were refused; want at most %d stops",
						stops.Load(), fine.Load(), refused.Load(), c.stops)
				}
			})
		})
	}
}

// TestCooldownOfABudgetSparesOtherCalls: while a trial of one budget is under
// way, calls that it does not cover go on, and so do those that may not wait.
func TestCooldownOfABudgetSparesOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		search := quota.Budget{Account: account, Name: "search", Limit: 100, Window: quota.Sliding(time.Hour),
			Methods: []string{"search"}}
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour), search)
		release := make(chan struct{})
		first := true
		base := tripper(func(r *http.Request) (*http.Response, error) {
			status := http.StatusOK
			switch {
			case r.URL.Path != "/search":
			case first:
				status, first = http.StatusTooManyRequests, false
			default:
				<-release
			}
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
		})
		transport := &quota.Transport{Guard: guard, Price: priced(1), Base: base, MaxWait: time.Minute,
			Feedback: func(c quota.Call, r *http.Response) quota.Verdict {
				v := stop5(c, r)
				if v.For > 0 {
					v.Budget = "search"
				}
				return v
			}}
		get := func(method string) error {
			resp, err := (&http.Client{Transport: transport}).Get("http://upstream/" + method)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		if err := get("search"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 2 { // the trial, and one that waits for it
			wg.Go(func() {
				if err := get("search"); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := get("videos"); err != nil || time.Since(began) != 0 {
			t.Errorf("another method: %v after %s; want it at once", err, time.Since(began))
		}
		close(release)
		wg.Wait()
		if time.Since(began) != 0 {
			t.Errorf("the waiting call went on %s after the trial; want at once", time.Since(began))
		}
	})
}

// TestFailedTrialLetsTheNextGo: a trial whose call fails or is cancelled
// does not keep the others waiting.
func TestFailedTrialLetsTheNextGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
		calls := 0
		base := tripper(func(r *http.Request) (*http.Response, error) {
			switch calls++; calls {
			case 1:
				return &http.Response{StatusCode: 429, Body: http.NoBody, Request: r}, nil
			case 2:
				return nil, io.ErrUnexpectedEOF
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
		})
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base,
			MaxWait: time.Minute, Feedback: stop5}}
		began := time.Now()
		for i := range 4 {
			resp, err := client.Get("http://upstream/m")
			if (err != nil) != (i == 1) {
				t.Fatalf("request %d: %v", i, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %s; want the one wait of 5 s", took)
		}
	})
}

// TestCooldownsGrowOnlyWhenRepeated checks the lengths of cooldowns.
func TestCooldownsGrowOnlyWhenRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
		verdict := quota.Verdict{}
		base := tripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
		})
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base,
			MaxWait:  24 * time.Hour,
			Feedback: func(quota.Call, *http.Response) quota.Verdict { return verdict }}}
		slow := func(d time.Duration) quota.Verdict { return quota.Verdict{For: d, Transient: true} }
		for i, step := range []struct {
			said quota.Verdict
			want time.Duration
		}{
			{slow(5 * time.Second), 5 * time.Second},
			{slow(5 * time.Second), 10 * time.Second},
			{slow(7 * time.Second), 28 * time.Second},
			{quota.Verdict{Transient: true}, 0}, // says nothing about the stop
			{slow(2 * time.Minute), 10 * time.Minute},
			{slow(time.Hour), time.Hour},
			{slow(time.Second), 32 * time.Second},
			{quota.Verdict{}, 0}, // it is over
			{slow(5 * time.Second), 5 * time.Second},
			{quota.Verdict{For: 5 * time.Second}, 5 * time.Second}, // the last unit of a limit was used
			{quota.Verdict{For: 5 * time.Second}, 5 * time.Second},
			{slow(5 * time.Second), 5 * time.Second},
		} {
			time.Sleep(time.Millisecond)
			verdict = step.said
			resp, err := client.Get("http://upstream/m")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			balances, err := guard.Balances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got time.Duration
			if c := balances[0].Cooldown; c != nil {
				got = time.Until(c.Until)
			}
			if got != step.want {
				t.Errorf("step %d: a cooldown of %s; want %s", i, got, step.want)
			}
		}
	})
}

// TestAHangingTrialDoesNotHoldUpItsProcess: calls of the trial's own process
// waited for its answer for all of MaxWait; those of others wait for 10 s.
func TestAHangingTrialDoesNotHoldUpItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		answer := make(chan struct{})
		base := statusTripper(func(*http.Request) int {
			switch calls.Add(1) {
			case 1:
				return http.StatusTooManyRequests
			case 2:
				<-answer
			}
			return http.StatusOK
		})
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base,
			MaxWait: time.Hour, Feedback: stop5}}
		get := func() {
			if status, err := getStatus(client); err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v", status, err)
			}
		}
		getStatus(client)
		began := time.Now()
		var trial, others sync.WaitGroup
		trial.Go(get)
		time.Sleep(6 * time.Second)
		for range 3 {
			others.Go(get)
		}
		others.Wait()
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("sent after %s; want 10 s after the stop of 5 s", took)
		}
		close(answer)
		trial.Wait()
	})
}
