package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/status"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
	"github.com/ration-dev/ration/quota/usage"
)

// eachLedger runs a test on every ledger, with a clock that the test sets.
func eachLedger(t *testing.T, at time.Time, test func(t *testing.T, l quota.Ledger, clock *time.Time)) {
	open := map[string]func(t *testing.T, now func() time.Time) (quota.Ledger, error){
		"memory": func(_ *testing.T, now func() time.Time) (quota.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		},
		"SQLite": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ration.db"), &sqliteledger.Options{Now: now})
		},
		"Redis": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(startedRedis(t), &redisledger.Options{Now: now})
		},
	}
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("RATION_REQUIRE_REDIS") == "" {
		delete(open, "Redis") // make deps installs it
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			clock := at
			l, err := open(t, func() time.Time { return clock })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			test(t, l, &clock)
		})
	}
}

// startedRedis starts a redis-server for a test and returns its URL.
func startedRedis(t *testing.T, args ...string) string {
	t.Helper()
	url, _ := redisProcess(t, args...)
	return url
}

// redisProcess starts a redis-server, and returns its URL and what kills it and
// starts it again.
func redisProcess(t *testing.T, args ...string) (url string, restart func(meanwhile func())) {
	t.Helper()
	needRedis(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)
	var server *exec.Cmd
	start := func() {
		server = exec.Command("redis-server", args...)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				conn.Close()
				return
			}
			if time.Now().After(end) {
				t.Fatal("redis-server did not start within ten seconds")
			}
		}
	}
	stop := func() { server.Process.Kill(); server.Wait() }
	start()
	t.Cleanup(func() { stop() })
	return "redis://127.0.0.1:" + port, func(meanwhile func()) {
		stop()
		meanwhile()
		start()
	}
}

// TestReturnsPrintedBeforeTheyAreBack: status printed +201 at the time at
// which the first unit of that minute returned. At each time that is printed,
// and each in the JSON, the ledger must have what is promised by then.
func TestReturnsPrintedBeforeTheyAreBack(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	for name, window := range map[string]quota.Window{
		"sliding": quota.Sliding(time.Hour), "day": quota.Daily(time.UTC), "month": quota.Monthly(time.UTC),
		"day with a margin": quota.Daily(time.UTC).At(12 * time.Hour).WithMargin(time.Minute), // the calls lie around its boundary
	} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, noon.Add(-30*time.Second), func(t *testing.T, l quota.Ledger, clock *time.Time) {
				budget := quota.Budget{Account: "p", Name: "b", Limit: 9500, Window: window}
				guard, err := quota.NewGuard(l, []quota.Budget{budget}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, after := range []time.Duration{0, 20, 50, 59, 61, 100, 119, 200, 300, 301, 900} {
					*clock = noon.Add(after*time.Second - 30*time.Second)
					units := quota.Units(1)
					if after == 50 || after == 301 {
						units = 200
					}
					if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: units, Caller: quota.Caller{Lane: "cron"}}); err != nil {
						t.Fatal(err)
					}
				}
				balance := func() quota.Balance {
					balances, err := guard.Balances(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return balances[0]
				}
				standings, err := usage.Status(t.Context(), guard)
				if err != nil {
					t.Fatal(err)
				}
				start, a := standings[0], usage.NewBudgetReport(&standings[0])
				if len(a.NextFree) == 0 || a.ByLane["cron"] != start.Used {
					t.Fatalf("%+v", a)
				}
				var promised quota.Units
				for _, r := range a.NextFree {
					promised += r.Units
					printed, err := time.Parse("2006-01-02 15:04:05Z", r.At.Format("2006-")+clock0(r.At, start.At))
					if err != nil {
						t.Fatal(err)
					}
					for _, at := range []time.Time{r.At, printed} {
						*clock = at
						if back := start.Used - balance().Used; back < promised {
							t.Errorf("%s: %d units are back; %d were promised (%s)", at, back, promised, status.ReturnText(a, start.At))
						}
					}
				}
			})
		})
	}
}

// clock0 is a time in the column of returns.
func clock0(at, now time.Time) string {
	s := &usage.BudgetReport{NextFree: []usage.Return{{At: at, Units: 1}}}
	var when, rest string
	fmt.Sscanf(status.ReturnText(s, now), "+1 %s %s", &when, &rest)
	return when + " " + rest
}

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	} else if os.Getenv("RATION_REQUIRE_REDIS") != "" {
		t.Fatalf("%v, and RATION_REQUIRE_REDIS is set: make deps installs it", err)
	} else {
		t.Skipf("SKIPPED, %v: make deps installs it", err)
	}
}
