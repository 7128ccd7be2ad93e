package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

var budgets = []quota.Budget{{Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)}}

// host is a host with a journal of its own, and several processes.
type host struct {
	*testing.T
	dir     string
	open    func() quota.Ledger
	budgets []quota.Budget
	now     func() time.Time  // nil is time.Now
	granted func(quota.Units) // within the allowance; nil drops it
	seen    []error
}

func newHost(t *testing.T, open func() quota.Ledger) *host {
	return &host{T: t, dir: filepath.Join(t.TempDir(), "journal"), open: open, budgets: budgets}
}

// redisHost returns a host whose ledger is on a server.
func redisHost(t *testing.T, server *redistest.Server) *host {
	return newHost(t, func() quota.Ledger {
		l, err := redisledger.Open(server.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

// process returns a guard as a new process of the host has it.
func (h *host) process() *quota.Guard {
	h.Helper()
	l := journal.New(h.open(), h.dir, &journal.Options{Budgets: h.budgets, Now: h.now, Granted: h.granted, Report: func(err error) { h.seen = append(h.seen, err) },
		Allow: func(quota.Call) quota.Units { return 50 }})
	h.Cleanup(func() { _ = l.Close() })
	g, err := quota.NewGuard(l, h.budgets, nil)
	if err != nil {
		h.Fatal(err)
	}
	return g
}

// calls makes calls of one unit until one is refused, at most most.
func calls(g *quota.Guard, most int) (granted int, err error) {
	for range most {
		if _, err = g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1}); err != nil {
			return granted, err
		}
		granted++
	}
	return granted, nil
}

func logKey(prefix string) string { return fmt.Sprintf("%s:{%s}:log", prefix, account) }

// TestFlushedRedisGrantsTwice: whatever is deleted in Redis, the hosts restore
// it before anything more is granted.
func TestFlushedRedisGrantsTwice(t *testing.T) {
	server := redistest.Start(t)
	for name, forget := range map[string]func(prefix string){
		"FLUSHALL": func(string) { server.Do(t, "flushall") },
		"DEL log":  func(prefix string) { server.Do(t, "del", logKey(prefix)) },
		"DEL meta": func(prefix string) { server.Do(t, "del", fmt.Sprintf("%s:{%s}:meta", prefix, account)) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				prefix := strings.ReplaceAll(fmt.Sprint(name, restart), " ", "-")
				open := func() quota.Ledger {
					l, err := redisledger.Open(server.URL(), &redisledger.Options{Prefix: prefix})
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				a, b := newHost(t, open), newHost(t, open)
				ga, gb := a.process(), b.process()
				sent := 0
				count := func(g *quota.Guard, most int) {
					n, _ := calls(g, most)
					sent += n
				}
				count(gb, 100)
				count(ga, 150)
				t.Log(server.Do(t, "keys", "*"))
				forget(prefix)
				if restart {
					ga, gb = a.process(), b.process()
				}
				count(ga, 10)
				count(gb, 100)
				count(ga, 1000)
				count(gb, 1000)
				if sent != 500 {
					t.Errorf("%d calls were sent; want 500; reported %v, %v", sent, a.seen, b.seen)
				}
				if name != "DEL meta" {
					if restored, ok := errors.AsType[*journal.RestoredError](errors.Join(a.seen...)); !ok || restored.Units+restored.Noted == 0 {
						t.Errorf("%v; want the restoration", a.seen)
					}
				}
			})
		}
	}
}

// TestCallsOfAnOutageAreNeverRecorded: what went out while the ledger was down
// is in it before the first grant afterwards. If the ledger has forgotten too,
// that is reported.
func TestCallsOfAnOutageAreNeverRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits eight seconds for a ledger that is down")
	}
	t.Parallel()
	for _, keeps := range []string{"yes", "no"} {
		server := redistest.Start(t, "--appendonly", keeps, "--appendfsync", "always")
		h := redisHost(t, server)
		if n, err := calls(h.process(), 100); n != 100 {
			t.Fatal(n, err)
		}
		server.Stop()
		n, err := calls(h.process(), 100)
		if n != 50 || !errors.Is(err, quota.ErrLedgerDown) {
			t.Fatalf("%d calls, then %v; want the allowance of 50", n, err)
		}
		if n, err := calls(h.process(), 100); n != 0 || !errors.Is(err, quota.ErrLedgerDown) {
			t.Fatalf("%d calls, then %v; want none", n, err)
		}
		server.Restart(t)
		g := h.process()
		if n, err := calls(g, 1000); n != 350 || !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%d calls, then %v; want the 350 that were left", n, err)
		}
		if balances, err := g.Balances(t.Context()); err != nil || balances[0].Used != 500 {
			t.Errorf("%v, %v; want 500 used", balances, err)
		}
		restored, ok := errors.AsType[*journal.RestoredError](errors.Join(h.seen...))
		if !ok || restored.Owed != 50 || errors.Is(restored, quota.ErrLedgerLost) != (keeps == "no") {
			t.Errorf("appendonly %s: %v; want the 50 units of the outage, and the loss", keeps, h.seen)
		}
	}
}

// TestDeletedMetaCountsTwice: with the account's meta, Redis loses what the
// labels of its log mean. What a budget of some methods had counted came back
// as a note beside the calls themselves.
func TestDeletedMetaCountsTwice(t *testing.T) {
	server := redistest.Start(t)
	narrow := append(slices.Clone(budgets), quota.Budget{Account: account, Name: "searches", Methods: []string{"search"}, Limit: 100, Window: quota.Sliding(time.Hour)})
	var seen []error
	h := redisHost(t, server)
	l := journal.New(h.open(), h.dir, &journal.Options{Budgets: narrow, Report: func(err error) { seen = append(seen, err) }})
	defer l.Close()
	g, err := quota.NewGuard(l, narrow, nil)
	must(t, err)
	if _, err := calls(g, 20); err != nil {
		t.Fatal(err)
	}
	_, err = g.Spend(t.Context(), quota.Call{Account: account, Method: "search", Units: 60})
	must(t, err)
	deleteAll(t, server, "*:meta")
	_, err = g.Spend(t.Context(), quota.Call{Account: account, Method: "search", Units: 40})
	must(t, err)
	if _, err = g.Spend(t.Context(), quota.Call{Account: account, Method: "search", Units: 1}); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal of the 101st unit of searches", err)
	}
	if n, err := calls(g, 1000); n != int(budgets[0].Limit)-120 {
		t.Errorf("%d calls more, then %v; want %d: 120 units were spent", n, err, budgets[0].Limit-120)
	}
	if len(seen) > 0 {
		t.Errorf("reported: %v; the log lacked nothing", seen)
	}
}
