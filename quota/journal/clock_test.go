package journal_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// serverTime is a ledger whose clock the test sets, as an operator could set
// the clock of its server.
type serverTime struct{ quota.Ledger }

func (serverTime) RealTime() bool { return true }

// TestLedgerClockJumpsGrantTwice: whatever the clock of a ledger's server
// shows, the upstream gets no more than the limit, also from processes that
// start later, and the callers learn both times.
func TestLedgerClockJumpsGrantTwice(t *testing.T) {
	server := redistest.Start(t)
	for name, open := range openers(t, server) {
		for _, journaled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, journal %v", name, journaled), func(t *testing.T) {
				if name == "redis" {
					server.Do(t, "flushall")
				}
				var jump atomic.Int64
				ledger, err := open(func() time.Time { return time.Now().Add(time.Duration(jump.Load())) })
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = ledger.Close() })
				var hits atomic.Int64
				upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
				t.Cleanup(upstream.Close)
				dir := filepath.Join(t.TempDir(), "journal")
				process := func() *http.Client {
					used := quota.Ledger(serverTime{ledger})
					if journaled {
						used = journal.New(used, dir, &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 50 }})
					}
					guard, err := quota.NewGuard(used, budgets, nil)
					if err != nil {
						t.Fatal(err)
					}
					price := func(*http.Request) (quota.Call, error) {
						return quota.Call{Account: account, Method: "m", Units: 1}, nil
					}
					return &http.Client{Transport: &quota.Transport{Guard: guard, Price: price}}
				}
				first := process()
				if err := getMany(first, upstream.URL, 400); err != nil {
					t.Fatal(err)
				}
				for _, hours := range []int{25, 49, 25, 24 * 400} {
					jump.Store(int64(time.Duration(hours) * time.Hour))
					for _, c := range []*http.Client{first, process()} {
						err := getMany(c, upstream.URL, 1000)
						stopped, ok := errors.AsType[*quota.ClockError](err)
						if !ok || stopped.Ledger.Sub(stopped.Caller) < time.Duration(hours)*time.Hour-time.Minute || hits.Load() != 400 {
							t.Fatalf("%d calls, %v; want 400 and a ClockError", hits.Load(), err)
						}
					}
				}
				jump.Store(0)
				for _, c := range []*http.Client{first, process()} {
					if err := getMany(c, upstream.URL, 1000); !errors.Is(err, quota.ErrRefused) || hits.Load() != 500 {
						t.Fatalf("%d calls, %v; want exactly 500", hits.Load(), err)
					}
				}
			})
		}
	}
}

// TestWrongClockOfAHostStopsIt: the dates of the upstream's answers support the
// clock of the ledger, or that of the host.
func TestWrongClockOfAHostStopsIt(t *testing.T) {
	const ahead = 25 * time.Hour
	for name, hostIsWrong := range map[string]bool{"host": true, "ledger": false} {
		t.Run(name, func(t *testing.T) {
			var jump atomic.Int64
			ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }})
			used := journal.New(serverTime{ledger}, filepath.Join(t.TempDir(), "journal"), &journal.Options{Budgets: budgets})
			t.Cleanup(func() { _ = used.Close() })
			guard, err := quota.NewGuard(used, budgets, nil)
			if err != nil {
				t.Fatal(err)
			}
			hits := 0
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if hits++; hostIsWrong {
					w.Header().Set("Date", time.Now().Add(ahead-time.Hour).UTC().Format(http.TimeFormat))
					w.Header().Set("Age", "3600")
				}
			}))
			t.Cleanup(upstream.Close)
			var reported []error
			client := &http.Client{Transport: &quota.Transport{Guard: guard,
				Price: func(*http.Request) (quota.Call, error) {
					return quota.Call{Account: account, Method: "m", Units: 1}, nil
				},
				Report: func(_ quota.Call, err error) { reported = append(reported, err) }}}
			if err := getMany(client, upstream.URL, 1); err != nil {
				t.Fatal(err)
			}
			jump.Store(int64(ahead))
			err = getMany(client, upstream.URL, 3)
			if hostIsWrong {
				if err != nil || hits != 4 || len(reported) != 1 || !strings.HasSuffix(reported[0].Error(), ": calls go on, correct this host's") {
					t.Errorf("%d calls, %v, reported %v; want 4, and the host's clock reported once", hits, err, reported)
				}
			} else if err == nil || hits != 1 || !strings.Contains(err.Error(), ": correct the ledger's") {
				t.Errorf("%d calls, %v; want 1, and that the ledger's clock is wrong", hits, err)
			}
		})
	}
}

// TestAcceptedClockIsRefusedAgain: an operator who says that the ledger's clock
// is right can go on with the calls, also of keyed logs.
func TestAcceptedClockIsRefusedAgain(t *testing.T) {
	var jump atomic.Int64
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }})
	used := journal.New(serverTime{ledger}, filepath.Join(t.TempDir(), "journal"), &journal.Options{Budgets: budgets})
	t.Cleanup(func() { _ = used.Close() })
	guard, err := quota.NewGuard(used, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, hours := range []int{0, 3} {
		jump.Store(int64(time.Duration(hours) * time.Hour))
		for _, key := range []string{"", "a client"} {
			call := quota.Call{Account: account, Key: key, Method: "m", Units: 1}
			_, err := guard.Spend(t.Context(), call)
			if _, stopped := errors.AsType[*quota.ClockError](err); stopped != (hours > 0) {
				t.Fatalf("%d hours ahead, key %q: %v", hours, key, err)
			}
		}
	}
	if err := guard.AcceptClock(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "a client"} {
		if _, err := guard.Spend(t.Context(), quota.Call{Account: account, Key: key, Method: "m", Units: 1}); err != nil {
			t.Errorf("key %q: %v; want a grant", key, err)
		}
	}
}

// TestAcceptedClockWithOwedCalls: calls of an outage come before all others, so
// that they kept an operator from saying that the ledger's clock is right.
func TestAcceptedClockWithOwedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jump := 3 * time.Hour
		inner := &faulty{Ledger: memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(jump) }})}
		inner.fail(errDown)
		used := journal.New(serverTime{inner}, t.TempDir(), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 50 }})
		defer used.Close()
		guard, err := quota.NewGuard(used, budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Account: account, Method: "m", Units: 10}
		if _, err := guard.Spend(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		inner.fail(nil)
		time.Sleep(2 * time.Second) // of the bubble's time: until the ledger is asked again
		_, err = guard.Spend(t.Context(), call)
		if _, stopped := errors.AsType[*quota.ClockError](err); !stopped {
			t.Fatalf("%v; want a ClockError", err)
		}
		if err := guard.AcceptClock(t.Context(), account); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		balances, err := guard.Balances(t.Context())
		if err != nil || balances[0].Used != 20 {
			t.Errorf("%+v, %v; want 20 units in use", balances, err)
		}
	})
}

// openers open a ledger of each kind with a clock.
func openers(t *testing.T, server *redistest.Server) map[string]func(now func() time.Time) (quota.Ledger, error) {
	return map[string]func(now func() time.Time) (quota.Ledger, error){
		"memory": func(now func() time.Time) (quota.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		},
		"sqlite": func(now func() time.Time) (quota.Ledger, error) {
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ration.db"), &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal})
		},
		"redis": func(now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(server.URL(), &redisledger.Options{Now: now})
		},
	}
}

// getMany sends requests until one fails, most at most, and returns its error.
func getMany(c *http.Client, url string, most int) error {
	for range most {
		resp, err := c.Get(url)
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	return nil
}
