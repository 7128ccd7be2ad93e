package journal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// crowd makes calls of one unit by many callers at once, and returns how many
// were granted, and the last error other than a refusal.
func crowd(g *quota.Guard, callers, calls int) (granted int64, failed error) {
	var running sync.WaitGroup
	var left, sent atomic.Int64
	var mu sync.Mutex
	left.Store(int64(calls))
	for range callers {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				_, err := g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1})
				if err == nil {
					sent.Add(1)
				} else if !errors.Is(err, quota.ErrRefused) {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	return sent.Load(), failed
}

// TestCallersRestoreALossOnce: callers that noticed one loss at once restored
// it one after the other, each as a new life of the log, and what others had
// spent was noted again in each.
func TestCallersRestoreALossOnce(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (a, b *host, lose func()){
		"Redis": func() (a, b *host, lose func()) {
			server := redistest.Start(t)
			return redisHost(t, server), redisHost(t, server), func() { server.Do(t, "flushall") }
		},
		"SQLite": func() (a, b *host, lose func()) {
			path := filepath.Join(t.TempDir(), "ledger", "ration.db")
			open := func() quota.Ledger {
				l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
				must(t, err)
				return l
			}
			return newHost(t, open), newHost(t, open), func() {
				for _, end := range []string{"", "-wal", "-shm"} {
					must(t, os.Remove(path+end))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, lose := start()
			first, second := a.process(), b.process()
			if n, err := calls(first, 100); n != 100 {
				t.Fatal(n, err)
			}
			if n, err := calls(second, 50); n != 50 {
				t.Fatal(n, err)
			}
			lose()
			if n, err := crowd(second, 64, 200); n != 200 || err != nil {
				t.Errorf("%d of 200 granted after the loss, %v", n, err)
			}
			balances, err := second.Balances(t.Context())
			if err != nil || balances[0].Used != 350 {
				t.Errorf("%d used, %v; want the 350 calls", balances[0].Used, err)
			}
			if len(b.seen) != 1 {
				t.Errorf("%d reports of one loss: %v", len(b.seen), b.seen)
			}
		})
	}
}

// outage is a host whose ledger fails when it is told to.
type outage struct {
	*testing.T
	*faulty
	dir   string
	limit quota.Units
	allow quota.Units
	name  string // of the configuration
	now   func() time.Time
}

func newOutage(t *testing.T, limit, allow quota.Units) *outage {
	o := &outage{T: t, faulty: failing(nil), dir: t.TempDir(), limit: limit, allow: allow}
	return o
}

func (o *outage) budgets() []quota.Budget {
	b := quota.Budget{Account: account, Name: "day", Limit: o.limit, Window: quota.Sliding(24 * time.Hour)}
	if o.name != "" {
		b.Config = quota.Config{Name: o.name, Changed: noon}
	}
	return []quota.Budget{b}
}

// process returns a guard as a new process of the host has it.
func (o *outage) process() *quota.Guard {
	o.Helper()
	return o.processOn(o.faulty)
}

func (o *outage) processOn(l quota.Ledger) *quota.Guard {
	o.Helper()
	j := journal.New(l, o.dir, &journal.Options{Budgets: o.budgets(), Now: o.now, Allow: func(quota.Call) quota.Units { return o.allow }})
	g, err := quota.NewGuard(j, o.budgets(), nil)
	must(o.T, err)
	return g
}

// stranger returns a guard of another host on the same ledger.
func (o *outage) stranger(limit quota.Units, config string) *quota.Guard {
	o.Helper()
	other := &outage{T: o.T, faulty: o.faulty, dir: o.TempDir(), limit: limit, allow: 0, name: config}
	return other.process()
}

// spends checks that a process is granted exactly this many calls of one unit.
func (o *outage) spends(g *quota.Guard, want int) {
	o.Helper()
	if n, err := calls(g, want+50); n != want {
		o.Errorf("%d granted, %v; want %d", n, err, want)
	}
}

// TestSecondOutageGrantsWhatCameBack: what was granted within the allowance,
// and restored since, was left again in the next outage.
func TestSecondOutageGrantsWhatCameBack(t *testing.T) {
	o := newOutage(t, 100, 80)
	g := o.process()
	if n, err := calls(g, 60); n != 60 {
		t.Fatal(n, err)
	}
	o.fail(errDown)
	o.spends(g, 40)
	o.fail(nil)
	if _, err := o.process().Balances(t.Context()); err != nil { // restores
		t.Fatal(err)
	}
	o.fail(errDown)
	o.spends(o.process(), 0)
}

// TestOutageAfterASettledCall: an allowance counts what the calls of this host
// cost by what they were settled to.
func TestOutageAfterASettledCall(t *testing.T) {
	o := newOutage(t, 100, 80)
	g := o.process()
	grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	must(t, err)
	must(t, grant.Settle(t.Context(), 60))
	o.fail(errDown)
	o.spends(g, 40)
}

// TestOutageUnderALowerLimit: the lower limit of another configuration, heard
// in a refusal or beside a grant, holds while the ledger is down.
func TestOutageUnderALowerLimit(t *testing.T) {
	for _, before := range []int{50, 10} {
		o := newOutage(t, 500, 80)
		o.name = "a"
		if n, err := calls(o.stranger(50, "b"), 1); n != 1 {
			t.Fatal(n, err)
		}
		g := o.process()
		if n, err := calls(g, before); n != min(before, 49) {
			t.Fatal(n, err)
		}
		o.fail(errDown)
		o.spends(o.process(), max(0, 49-before))
	}
}

// TestRefusalOfSeveralCallsIsHeard: a host that was refused several calls
// together knows what others have spent, in an outage and after a loss.
func TestRefusalOfSeveralCallsIsHeard(t *testing.T) {
	for _, lost := range []bool{false, true} {
		o := newOutage(t, 100, 80)
		if n, err := calls(o.stranger(100, ""), 100); n != 100 {
			t.Fatal(n, err)
		}
		_, err := o.process().SpendTogether(t.Context(), quota.Call{Account: account, Method: "m", Units: 1}, 2, 0)
		if !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		if lost {
			o.faulty.Ledger = memledger.Open(nil)
		} else {
			o.fail(errDown)
		}
		o.spends(o.process(), 0)
	}
}

// TestCrowdWhenRedisIsBack: callers that still thought Redis was down were
// granted, within the allowance, what it granted others.
func TestCrowdWhenRedisIsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a process to try Redis again")
	}
	t.Parallel()
	server := redistest.Start(t, aof...)
	budgets := []quota.Budget{{Account: account, Name: "day", Limit: 200, Window: quota.Sliding(24 * time.Hour)}}
	inner, err := redisledger.Open(server.URL(), nil)
	must(t, err)
	l := journal.New(inner, t.TempDir(), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 150 }})
	defer l.Close()
	g, err := quota.NewGuard(l, budgets, nil)
	must(t, err)
	if n, err := calls(g, 100); n != 100 {
		t.Fatal(n, err)
	}
	server.Stop()
	within, _ := crowd(g, 8, 60)
	server.Restart(t)
	var back atomic.Int64
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			for began := time.Now(); time.Since(began) < 10*time.Second; {
				_, err := g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1})
				if err == nil {
					back.Add(1)
				} else if errors.Is(err, quota.ErrRefused) {
					return
				}
			}
		})
	}
	running.Wait()
	if total := 100 + within + back.Load(); total != 200 {
		t.Errorf("%d calls within the allowance and %d when Redis was back; want 100 in all", within, back.Load())
	}
}

// TestOtherProcessFindsTheLedgerBack: a process went on with its allowance for
// up to two seconds after another had restored the log, which had to restore
// each of its calls again.
func TestOtherProcessFindsTheLedgerBack(t *testing.T) {
	o := newOutage(t, 100, 80)
	a, b := o.process(), o.process()
	if n, err := calls(a, 1); n != 1 {
		t.Fatal(err)
	}
	o.fail(errDown)
	if n, err := calls(a, 5); n != 5 {
		t.Fatal(err)
	}
	o.fail(nil)
	for range 3 {
		for _, g := range []*quota.Guard{b, a} {
			if n, err := calls(g, 1); n != 1 {
				t.Fatal(err)
			}
		}
	}
	standings, err := o.faulty.Standings(t.Context(), account, "", []*quota.Charge{{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 100, Window: quota.Sliding(24 * time.Hour)}})
	if err != nil || standings[0].Used != 12 {
		t.Errorf("%+v, %v; want all 12 calls in the ledger", standings, err)
	}
}

// TestClaimRestoresALostFile: the claim of a pass has a log of its own, of
// which no host knows anything. The file was deleted under a process, or
// damaged before the next one.
func TestClaimRestoresALostFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ration.db")
	h := newHost(t, func() quota.Ledger {
		l, err := sqliteledger.Open(path, nil)
		must(t, err)
		return l
	})
	g := h.process()
	if n, err := calls(g, 10); n != 10 {
		t.Fatal(n, err)
	}
	for again, lose := range map[bool]func(){
		false: func() {
			for _, end := range []string{"", "-wal", "-shm"} {
				must(t, os.Remove(path+end))
			}
		},
		true: func() { must(t, os.WriteFile(path, bytes.Repeat([]byte("not a database\n"), 999), 0o600)) },
	} {
		lose()
		if again {
			g = h.process()
		}
		claim, err := g.Claim(t.Context(), quota.ClaimRequest{Account: account, Name: "pass", Hold: time.Minute, Again: time.Hour})
		if err != nil {
			t.Fatalf("a new process %v: %v", again, err)
		}
		must(t, claim.Release(t.Context()))
		balances, err := g.Balances(t.Context())
		if err != nil || balances[0].Used != 10 {
			t.Errorf("%+v, %v; want the 10 calls", balances, err)
		}
	}
}

// TestWhatIsLearntInAnOutage: a cooldown that was set while Redis was down, and
// what a call turned out to cost, are in the ledger after it.
func TestWhatIsLearntInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, aof...)
	h := redisHost(t, server)
	g := h.process()
	grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	must(t, err)
	server.Stop()
	if err := grant.Settle(t.Context(), 60); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("settle: %v; want that the ledger is down", err)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if err := g.Cool(t.Context(), quota.Cooldown{Account: account, Until: until, Reason: "the upstream said so"}); !errors.Is(err, quota.ErrLedgerDown) || !strings.HasSuffix(err.Error(), "; this host keeps the cooldown, and sets it once the ledger is back") {
		t.Errorf("cooldown: %v; want that the ledger is down", err)
	}
	server.Restart(t)
	for _, again := range []bool{false, true} {
		var refused *quota.RefusedError
		if n, err := calls(h.process(), 1); n != 0 || !errors.As(err, &refused) || refused.Reason != quota.ReasonCooldown {
			t.Fatalf("%d granted, %v; want a refusal by the cooldown", n, err)
		}
		other := redisHost(t, server).process()
		balances, err := other.Balances(t.Context())
		if err != nil || balances[0].Used != 60 || balances[0].Cooldown == nil || !balances[0].Cooldown.Until.Equal(until) {
			t.Errorf("again %v: %+v, %v; want 60 units, and the cooldown until %s", again, balances[0], err, until)
		}
	}
	must(t, g.Uncool(t.Context(), account, ""))
	if n, err := calls(h.process(), 1); n != 1 {
		t.Errorf("%v; want a grant after the cooldown was cleared", err)
	}
}

// countedRestores counts the restorations of a ledger.
type countedRestores struct {
	quota.Ledger
	times *atomic.Int32
}

func (c countedRestores) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	c.times.Add(1)
	return c.Ledger.Restore(ctx, r)
}

// TestOtherProcessRestoresAgain: a process of a host that had restored the log
// still had the head of its former life, took the restored log for lost, and
// restored it again as a further life.
func TestOtherProcessRestoresAgain(t *testing.T) {
	server := redistest.Start(t)
	h, times := redisHost(t, server), &atomic.Int32{}
	open := h.open
	h.open = func() quota.Ledger { return countedRestores{open(), times} }
	processes := []*quota.Guard{h.process(), h.process(), h.process()}
	for losses := range int32(3) {
		for _, g := range processes {
			if n, err := calls(g, 10); n != 10 {
				t.Fatal(n, err)
			}
		}
		if n := times.Load(); n != losses {
			t.Fatalf("%d restorations of %d losses", n, losses)
		}
		server.Do(t, "flushall")
	}
	if n, err := calls(processes[0], 1); n != 1 {
		t.Fatal(n, err)
	}
	balances, err := processes[2].Balances(t.Context())
	if err != nil || balances[0].Used != 91 {
		t.Errorf("%d used, %v; want 91", balances[0].Used, err)
	}
}
