package quota_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// saying is a client whose upstream says what is left of a budget by the path: /30.
func saying(up *upstream, guard *quota.Guard, budget string) func(t *testing.T, left quota.Units) {
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Base: &http.Transport{}, Price: func(*http.Request) (quota.Call, error) {
		return quota.Call{Account: account, Method: "m", Units: 10}, nil
	}, Report: func(_ quota.Call, err error) { panic(err) }, Feedback: func(_ quota.Call, r *http.Response) quota.Verdict {
		var left quota.Units
		fmt.Sscan(r.Request.URL.Path[1:], &left)
		return quota.Verdict{LeftOf: budget, Left: left}
	}}}
	return func(t *testing.T, left quota.Units) {
		resp, err := client.Get(fmt.Sprint(up.URL, "/", left))
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}
}

// TestLeftOnlyLowers plays an upstream that somebody else spends on too.
func TestLeftOnlyLowers(t *testing.T) {
	up := newUpstream(t, nil)
	calls := budget("other", 1000, time.Hour)
	calls.Measure = quota.Calls
	guard := newGuard(t, nil, budget("day", 1000, time.Hour), calls)
	get := saying(up, guard, "day")
	for i, step := range []struct{ left, used quota.Units }{
		{990, 10},  // as the ledger believes
		{5000, 20}, // more is not taken
		{900, 100}, // others spent 70
		{895, 110}, // in less than a hundredth of the limit: not asked
		{880, 120}, // as the ledger believes
		{900, 130}, // nor is this
		{600, 400}, // others spent 260
	} {
		if get(t, step.left); used(t, guard) != step.used {
			t.Fatalf("step %d: %d left, used is %d; want %d", i, step.left, used(t, guard), step.used)
		}
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[1].Used != 7 {
		t.Errorf("%d calls, %v; want those made, and no note", balances[1].Used, err)
	}
}

// TestLeftOfCalls does so with a budget that counts calls: those that are entered
// cost no unit, and are some 200 an answer.
func TestLeftOfCalls(t *testing.T) {
	up := newUpstream(t, nil)
	calls, units := budget("day", 1000, time.Hour), budget("units", 100_000, time.Hour)
	calls.Measure = quota.Calls
	guard := newGuard(t, nil, calls, units)
	get := saying(up, guard, "day")
	for i, step := range []struct{ left, used quota.Units }{{999, 1}, {980, 20}, {700, 221}, {700, 300}, {700, 301}} {
		if get(t, step.left); used(t, guard) != step.used {
			t.Fatalf("step %d: %d left, used is %d; want %d", i, step.left, used(t, guard), step.used)
		}
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[1].Used != 50 {
		t.Errorf("%d units, %v; want those of the calls made", balances[1].Used, err)
	}
}

// TestLeftIsEnteredOnce lets many guards, as of many processes, see the same
// difference at the same time.
func TestLeftIsEnteredOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func() quota.Ledger{
		"memory": func(*testing.T) func() quota.Ledger {
			l := memledger.Open(nil)
			return func() quota.Ledger { return l }
		},
		"SQLite": func(t *testing.T) func() quota.Ledger {
			path := filepath.Join(t.TempDir(), "ration.db")
			return func() quota.Ledger {
				l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return l
			}
		},
		"Redis": func(t *testing.T) func() quota.Ledger {
			url := redistest.Start(t).URL()
			return func() quota.Ledger {
				l, err := redisledger.Open(url, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return l
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			another := open(t)
			day, calls := budget("day", 100_000, time.Hour), budget("calls", 5000, time.Hour)
			calls.Measure = quota.Calls
			var guards []*quota.Guard
			for range 8 {
				guard, err := quota.NewGuard(another(), []quota.Budget{day, calls}, nil)
				if err != nil {
					t.Fatal(err)
				}
				guards = append(guards, guard)
			}
			for _, c := range []struct {
				budget             string
				place              int
				limit, first, step quota.Units // others spend much more than is in flight here
				flight             quota.Units
			}{{"day", 0, 100_000, 90_000, 4000, 160}, {"calls", 1, 5000, 4700, 60, 16}} {
				for round := range 10 {
					left := c.first - c.step*quota.Units(round)
					var wg sync.WaitGroup
					for _, guard := range guards {
						get := saying(up, guard, c.budget)
						wg.Go(func() {
							for range 2 {
								get(t, left)
							}
						})
					}
					wg.Wait()
					balances, err := guards[0].Balances(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					// Whoever looked last had the calls of the others in flight: they
					// are the most that may count twice as spent, and none as left.
					if got := c.limit - balances[c.place].Used; got > left || got < left-c.flight {
						t.Errorf("%s, round %d: %d left; want %d, less %d at most", c.budget, round, got, left, c.flight)
					}
				}
			}
		})
	}
}

// TestCooldownsSayWhoAsked looks at what others are told.
func TestCooldownsSayWhoAsked(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, c := range []struct {
		caller       quota.Caller
		reason, want string
	}{
		{quota.Caller{Lane: "cron", Job: "trending", Region: "IN"}, "403 quotaExceeded", "403 quotaExceeded (cron/trending IN)"},
		{quota.Caller{Lane: "manual"}, "403 quotaExceeded", "403 quotaExceeded (manual/-)"},
		{quota.Caller{Region: "US"}, "", " (-/- US)"},
		{quota.Caller{}, "403 quotaExceeded", "403 quotaExceeded"},
		{quota.Caller{Lane: "cron", Job: "trending"}, long, long[:184] + " (cron/trending)"},
		{quota.Caller{Lane: long[:128], Job: "x"}, long, long[:96] + " (" + long[:100] + ")"},
	} {
		up := newUpstream(t, nil)
		guard := newGuard(t, nil, budget("day", 100, time.Hour))
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Feedback: func(quota.Call, *http.Response) quota.Verdict {
			return quota.Verdict{Until: time.Now().Add(time.Minute), Reason: c.reason}
		}}}
		req, _ := http.NewRequestWithContext(quota.WithCaller(t.Context(), c.caller), "GET", up.URL, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		balances, err := guard.Balances(t.Context())
		if err != nil || balances[0].Cooldown == nil {
			t.Fatalf("%+v, %v; want a cooldown", balances, err)
		}
		if got := balances[0].Cooldown.Reason; got != c.want || len(got) > 200 {
			t.Errorf("%+v: %q; want %q", c.caller, got, c.want)
		}
	}
}

// TestNeverIsNeitherCooledNorRetried answers that there is no quota at all.
func TestNeverIsNeitherCooledNorRetried(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 100, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Retries: 3, MaxWait: time.Minute, Feedback: func(quota.Call, *http.Response) quota.Verdict {
		return quota.Verdict{Never: true, Transient: true, Until: time.Now().Add(time.Minute)}
	}}}
	for range 2 {
		resp, err := client.Get(up.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if up.hits.Load() != 2 || used(t, guard) != 2 {
		t.Errorf("%d requests, %d units; want 2", up.hits.Load(), used(t, guard))
	}
}
