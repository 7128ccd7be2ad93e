package quota_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// opener returns a function that opens a ledger for one of several processes.
type opener func(*testing.T) func() (quota.Ledger, error)

func openMemory(*testing.T) func() (quota.Ledger, error) {
	ledger := memledger.Open(nil)
	return func() (quota.Ledger, error) { return ledger, nil }
}

func openSQLite(t *testing.T) func() (quota.Ledger, error) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	return func() (quota.Ledger, error) { return sqliteledger.Open(file, nil) }
}

func openRedis(t *testing.T) func() (quota.Ledger, error) {
	url := servers.StartRedis(t).URL()
	return func() (quota.Ledger, error) { return redisledger.Open(url, nil) }
}

// everyLedger runs a test on every ledger, in fake time where the ledger's
// clock is this process's. A stop lasts for the time that run is given.
func everyLedger(t *testing.T, run func(*testing.T, func() (quota.Ledger, error), time.Duration)) {
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			opened := open(t)
			synctest.Test(t, func(t *testing.T) { run(t, opened, 3*time.Second) })
		})
	}
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		run(t, openRedis(t), 300*time.Millisecond)
	})
}

// stopFor is a feedback by which every 429 is a stop for d.
func stopFor(d time.Duration) func(quota.Call, *http.Response) quota.Verdict {
	return func(_ quota.Call, r *http.Response) quota.Verdict {
		if r.StatusCode == http.StatusTooManyRequests {
			return quota.Verdict{For: d, Transient: true, After: time.Microsecond}
		}
		return quota.Verdict{}
	}
}

// newProcess returns a client like that of a new process on a ledger. It waits
// for at most ten stops.
func newProcess(t *testing.T, open func() (quota.Ledger, error), stop time.Duration, base tripper) *http.Client {
	return &http.Client{Transport: &quota.Transport{Guard: openGuard(t, open), Price: priced(1), Base: base,
		MaxWait: 10 * stop, Retries: 8, Feedback: stopFor(stop)}}
}

// openGuard returns a guard of the budgets; for none, of 1000 in 24 hours.
func openGuard(t *testing.T, open func() (quota.Ledger, error), budgets ...quota.Budget) *quota.Guard {
	if len(budgets) == 0 {
		budgets = []quota.Budget{budget("day", 1000, 24*time.Hour)}
	}
	ledger, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ledger.Close() })
	guard, err := quota.NewGuard(ledger, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func statusTripper(status func(*http.Request) int) tripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status(r), Body: http.NoBody, Request: r}, nil
	}
}

func getStatus(client *http.Client) (int, error) {
	resp, err := client.Get("http://upstream/m")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestTheEndOfACooldownIsTriedByOneProcess has processes with three callers
// each, and an upstream that never ends its stop.
func TestTheEndOfACooldownIsTriedByOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for cooldowns")
	}
	for _, processes := range []int{1, 12} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			everyLedger(t, func(t *testing.T, open func() (quota.Ledger, error), stop time.Duration) {
				var hits atomic.Int32
				base := statusTripper(func(*http.Request) int { hits.Add(1); return http.StatusTooManyRequests })
				clients := make([]*http.Client, processes)
				for i := range clients {
					clients[i] = newProcess(t, open, stop, base)
				}
				var wg sync.WaitGroup
				wg.Go(func() { getStatus(clients[0]) })
				for hits.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(stop / 10)
				for _, client := range clients {
					for range 3 {
						wg.Go(func() {
							if status, err := getStatus(client); status == http.StatusOK || err != nil &&
								!errors.Is(err, quota.ErrRefused) {
								t.Errorf("status %d, %v", status, err)
							}
						})
					}
				}
				wg.Wait()
				t.Logf("%d processes: %d hits", processes, hits.Load())
				if units := used(t, openGuard(t, open)); units != quota.Units(hits.Load()) {
					t.Errorf("%d requests were sent and %d units charged; want each charged, trials too", hits.Load(),
						units)
				}
				if hits.Load() > 6 { // stops of 1, 1 or 2, 2, 4, 8 and 16 times what the upstream says
					t.Errorf("%d requests of %d processes were charged and stopped; want at most 6, as for one",
						hits.Load(), processes)
				}
			})
		})
	}
}

// TestATrialThatPassesLetsAllProcessesGoOn: once a trial finds that the
// stop is over, the calls of all processes are sent.
func TestATrialThatPassesLetsAllProcessesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a cooldown")
	}
	t.Parallel()
	everyLedger(t, func(t *testing.T, open func() (quota.Ledger, error), stop time.Duration) {
		var stops, fine atomic.Int32
		recovers := time.Now().Add(stop * 3 / 2)
		base := statusTripper(func(*http.Request) int {
			if time.Now().Before(recovers) {
				stops.Add(1)
				return http.StatusTooManyRequests
			}
			fine.Add(1)
			return http.StatusOK
		})
		var wg sync.WaitGroup
		for range 6 {
			client := newProcess(t, open, stop, base)
			for range 3 {
				wg.Go(func() {
					for range 2 {
						if status, err := getStatus(client); status != http.StatusOK {
							t.Errorf("status %d, %v", status, err)
						}
					}
				})
			}
		}
		wg.Wait()
		if stops.Load() > 18+2 || fine.Load() != 36 {
			t.Errorf("%d stops and %d fine answers; want at most the 18 in flight at first and 2 trials, and 36",
				stops.Load(), fine.Load())
		}
	})
}

// behind is the ledger of a process that claims a trial only after another.
type behind struct {
	quota.Ledger
	first <-chan struct{}
}

func newBehind(log quota.Ledger, first <-chan struct{}) quota.Ledger {
	return behind{log, first}
}

func (b behind) RealTime() bool { return engine.RealTime(b.Ledger) }

func (b behind) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	<-b.first
	return b.Ledger.Append(ctx, account, a)
}

// TestADeadTrialBlocksOthersUntilItsClaimLapses: the others wait until its
// claim lapses, not longer.
func TestADeadTrialBlocksOthersUntilItsClaimLapses(t *testing.T) {
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			opened := open(t)
			synctest.Test(t, func(t *testing.T) {
				died, trying := make(chan struct{}), make(chan struct{})
				calls := 0
				dies := newProcess(t, opened, 3*time.Second, statusTripper(func(*http.Request) int {
					if calls++; calls == 2 {
						close(trying)
						<-died
					}
					return http.StatusTooManyRequests
				}))
				var wg sync.WaitGroup
				wg.Go(func() { getStatus(dies) })
				var hits atomic.Int32
				time.Sleep(time.Second)
				began := time.Now()
				var others sync.WaitGroup
				openBehind := func() (quota.Ledger, error) {
					ledger, err := opened()
					return newBehind(ledger, trying), err
				}
				for range 3 {
					client := newProcess(t, openBehind, 3*time.Second,
						statusTripper(func(*http.Request) int { hits.Add(1); return http.StatusOK }))
					others.Go(func() {
						time.Sleep(time.Second)
						if status, err := getStatus(client); status != http.StatusOK {
							t.Errorf("status %d, %v", status, err)
						}
					})
				}
				others.Wait()
				if took := time.Since(began); took < 12*time.Second || took > 13*time.Second || hits.Load() != 3 {
					t.Errorf("%d calls were sent after %s; want 3, after the stop and 10 s", hits.Load(), took)
				}
				close(died)
				wg.Wait()
			})
		})
	}
}

// TestARefusedTrialIsNotSent: a trial is charged like any other call, and may
// be refused by a budget.
func TestARefusedTrialIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, hits := newGuard(t, nil, budget("day", 1, 24*time.Hour)), 0
		base := statusTripper(func(*http.Request) int { hits++; return http.StatusTooManyRequests })
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base,
			MaxWait: time.Minute, Feedback: stopFor(3 * time.Second)}}
		if status, err := getStatus(client); err != nil || status != http.StatusTooManyRequests {
			t.Fatalf("the first call: status %d, %v", status, err)
		}
		if status, err := getStatus(client); !errors.Is(err, quota.ErrRefused) || hits != 1 || used(t, guard) != 1 {
			t.Errorf("status %d, %v, after %d requests of %d units; want a refusal, after 1", status, err, hits,
				used(t, guard))
		}
	})
}

// TestACallWaitsForATrialInItsOwnName: a call whose wait ends before another
// process's trial has its answer is refused, in its own caller's name.
func TestACallWaitsForATrialInItsOwnName(t *testing.T) {
	open := openMemory(t)
	synctest.Test(t, func(t *testing.T) {
		trying, answered := make(chan struct{}), make(chan struct{})
		calls, hits := 0, 0
		slow := newProcess(t, open, 3*time.Second, statusTripper(func(*http.Request) int {
			if calls++; calls == 2 {
				close(trying)
				<-answered
				return http.StatusOK
			}
			return http.StatusTooManyRequests
		}))
		var wg sync.WaitGroup
		wg.Go(func() {
			if status, err := getStatus(slow); err != nil || status != http.StatusOK {
				t.Errorf("the trial: status %d, %v", status, err)
			}
		})
		time.Sleep(time.Second)
		guard := openGuard(t, func() (quota.Ledger, error) {
			ledger, err := open()
			return newBehind(ledger, trying), err
		})
		hasty := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), MaxWait: 5 * time.Second,
			Feedback: stopFor(3 * time.Second),
			Base:     statusTripper(func(*http.Request) int { hits++; return http.StatusOK })}}
		caller := quota.Caller{Lane: "cron", Job: "j", Region: "IN"}
		req, _ := http.NewRequestWithContext(quota.WithCaller(t.Context(), caller), "GET", "http://upstream/m", nil)
		_, err := hasty.Do(req)
		if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Caller != caller || hits != 0 ||
			used(t, guard) != 2 {
			t.Errorf("%v, %d requests, %d units; want a refusal of its caller, and those of the trial alone", err, hits,
				used(t, guard))
		}
		close(answered)
		wg.Wait()
		if status, err := getStatus(hasty); err != nil || status != http.StatusOK || used(t, guard) != 3 {
			t.Errorf("after the trial's answer: status %d, %v, %d units; want it sent, and charged", status, err,
				used(t, guard))
		}
	})
}

// TestImpatientCallsAreRefusedDuringATrial: calls that do not wait for the
// answer of a trial are refused, and none but the trial reaches the upstream.
func TestImpatientCallsAreRefusedDuringATrial(t *testing.T) {
	for _, maxWait := range []time.Duration{0, time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var hits, refused atomic.Int32
			base := tripper(func(r *http.Request) (*http.Response, error) {
				hits.Add(1)
				time.Sleep(2 * time.Second) // of the bubble's time
				return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody, Request: r}, nil
			})
			client := &http.Client{Transport: &quota.Transport{Guard: openGuard(t, openMemory(t)), Price: priced(1),
				Base: base, MaxWait: maxWait, Feedback: stopFor(30 * time.Second)}}
			if _, err := getStatus(client); err != nil {
				t.Fatal(err)
			}
			time.Sleep(31 * time.Second)
			var callers sync.WaitGroup
			for range 50 {
				callers.Go(func() {
					if _, err := getStatus(client); errors.Is(err, quota.ErrRefused) {
						refused.Add(1)
					}
				})
			}
			callers.Wait()
			if hits.Load() != 2 || refused.Load() != 49 {
				t.Errorf("waiting %v: %d calls reached the upstream, %d were refused; want the trial, and 49", maxWait,
					hits.Load()-1, refused.Load())
			}
		})
	}
}
