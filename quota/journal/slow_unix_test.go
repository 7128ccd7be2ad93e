//go:build unix

package journal_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// trouble keeps a server from answering until it is ended.
type trouble struct {
	begin, end func(*testing.T, *redistest.Server)
}

var troubles = map[string]trouble{
	"silent": {
		func(t *testing.T, s *redistest.Server) { s.Hang(t) },
		func(t *testing.T, s *redistest.Server) { s.GoOn(t) },
	},
	"READONLY": {
		func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "127.0.0.1", redistest.FreePort(t)) },
		func(t *testing.T, s *redistest.Server) { s.Do(t, "replicaof", "no", "one") },
	},
	"BUSY": {
		func(t *testing.T, s *redistest.Server) {
			s.Do(t, "config", "set", "lua-time-limit", 50)
			c := s.Client(t)
			go func() { _ = c.Eval(context.Background(), "while true do end", nil).Err() }() // until it is killed
			redistest.Await(t, "the script to be noticed", func() bool { return s.Client(t).Ping(t.Context()).Err() != nil })
		},
		func(t *testing.T, s *redistest.Server) { s.Do(t, "script", "kill") },
	},
}

// TestSlowRedisOpensTheAllowance: a second in which Redis does not answer, or
// answers that it cannot, opens no allowance.
func TestSlowRedisOpensTheAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for ledgers that are slow")
	}
	t.Parallel()
	for name, fault := range troubles {
		t.Run(name, func(t *testing.T) {
			server, u := redistest.Start(t), startUpstream(t)
			h := redisHost(t, server)
			g := h.process()
			u.spend(t, g, 50)
			fault.begin(t, server)
			time.AfterFunc(1100*time.Millisecond, func() { fault.end(t, server) })
			var doubts atomic.Int64
			var crowd sync.WaitGroup
			for range 4 {
				crowd.Go(func() {
					for range 10 {
						switch err := u.send(t, g, 1); {
						case errors.Is(err, quota.ErrInDoubt):
							doubts.Add(1)
						case errors.Is(err, quota.ErrLedgerBusy): // it waited too long behind others; nothing was sent
						case err != nil:
							t.Error(err)
						}
					}
				})
			}
			crowd.Wait()
			used, hits := usedOf(t, g), u.hits.Load()
			if used < hits || used > hits+doubts.Load() || len(h.seen) > 0 {
				t.Errorf("the ledger holds %d calls, the upstream saw %d, %d were in doubt, reported %v", used, hits, doubts.Load(), h.seen)
			}
		})
	}
}

// TestDeadRedisOpensNoAllowance: when the trouble lasts, the allowance is
// granted, and is charged before the first grant afterwards.
func TestDeadRedisOpensNoAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("waits seven seconds for ledgers that are down")
	}
	t.Parallel()
	for name, fault := range troubles {
		t.Run(name, func(t *testing.T) {
			server, u := redistest.Start(t), startUpstream(t)
			h := redisHost(t, server)
			g := h.process()
			u.spend(t, g, 100)
			fault.begin(t, server)
			doubts := int64(0)
			err := u.send(t, g, 100)
			for ; errors.Is(err, quota.ErrInDoubt); err = u.send(t, g, 100) {
				doubts++
			}
			if hits := u.hits.Load(); hits != 150 || !errors.Is(err, quota.ErrLedgerDown) {
				t.Errorf("%d calls reached the upstream, then %v; want the allowance of 50", hits, err)
			}
			fault.end(t, server)
			u.exhaust(t, h.process())
			if hits := u.hits.Load(); hits > 500 || hits < 500-doubts {
				t.Errorf("%d calls reached the upstream with %d in doubt; want 500", hits, doubts)
			}
			restored, ok := errors.AsType[*journal.RestoredError](errors.Join(h.seen...))
			if !ok || restored.Owed != 50 {
				t.Errorf("reported %v; want the restoration of 50", h.seen)
			}
		})
	}
}

// TestCooldownIsForgottenWhileDown: a cooldown that another host has set, and
// this one heard of in a refusal, holds while the ledger is down, also for a
// new process of the host. One that a grant has shown to be cleared does not.
func TestCooldownIsForgottenWhileDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits six seconds for a ledger that is down")
	}
	t.Parallel()
	for _, cleared := range []bool{false, true} {
		server, u := redistest.Start(t), startUpstream(t)
		ours, theirs := redisHost(t, server), redisHost(t, server)
		g, other := ours.process(), theirs.process()
		u.spend(t, g, 10)
		c := quota.Cooldown{Account: account, Budget: "day", For: time.Hour, Reason: "quotaExceeded"}
		if err := other.Cool(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := u.send(t, g, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want the cooldown", err)
		}
		want := int64(10)
		if cleared {
			if err := theirs.open().ClearCooldown(t.Context(), account, "day"); err != nil {
				t.Fatal(err)
			}
			redistest.Await(t, "the refusal to be asked again", func() bool { return u.send(t, g, 1) == nil })
			want++
		}
		server.Stop()
		for _, g := range []*quota.Guard{g, ours.process()} {
			err := u.send(t, g, 100)
			if refused, ok := errors.AsType[*quota.RefusedError](err); !cleared && (!ok || refused.Reason != quota.ReasonCooldown || refused.Detail != c.Reason) {
				t.Errorf("%v; want the cooldown", err)
			}
		}
		if cleared {
			want += 50
		}
		if hits := u.hits.Load(); hits != want {
			t.Errorf("%d calls reached the upstream, cleared %v; want %d", hits, cleared, want)
		}
	}
}

// TestCooldownIsForgottenByTheLedger: a cooldown that this host has set or
// heard of holds after the ledger has forgotten it, unless a grant has shown
// since that it was cleared.
func TestCooldownIsForgottenByTheLedger(t *testing.T) {
	for _, cleared := range []bool{false, true} {
		server, u := redistest.Start(t), startUpstream(t)
		ours, theirs := redisHost(t, server), redisHost(t, server)
		g := ours.process()
		u.spend(t, g, 10)
		c := quota.Cooldown{Account: account, Budget: "day", For: time.Hour, Reason: "maintenance"}
		if err := ours.process().Cool(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := u.send(t, g, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want the cooldown", err)
		}
		if cleared {
			if err := theirs.open().ClearCooldown(t.Context(), account, "day"); err != nil {
				t.Fatal(err)
			}
			redistest.Await(t, "the refusal to be asked again", func() bool { return u.send(t, g, 1) == nil })
		}
		server.Do(t, "flushall")
		err := u.send(t, ours.process(), 1)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if isKept := ok && refused.Reason == quota.ReasonCooldown && refused.Detail == c.Reason; isKept == cleared || cleared && err != nil {
			t.Errorf("cleared %t: %v; want the cooldown if it was not", cleared, err)
		}
	}
}

// TestCooldownIsForgottenInAnOutage: a ledger that came back empty, and was
// restored because calls had been granted meanwhile, lacked its cooldowns.
func TestCooldownIsForgottenInAnOutage(t *testing.T) {
	server := redistest.Start(t)
	ours := redisHost(t, server)
	process := func() *quota.Guard {
		l := journal.New(ours.open(), ours.dir, &journal.Options{Budgets: patientBudgets(), Allow: func(quota.Call) quota.Units { return 50 }})
		t.Cleanup(func() { _ = l.Close() })
		g, err := quota.NewGuard(l, patientBudgets(), nil)
		must(t, err)
		return g
	}
	spend := func(g *quota.Guard, method string) error {
		_, err := g.Spend(t.Context(), quota.Call{Account: account, Method: method, Units: 1})
		return err
	}
	g := process()
	must(t, spend(g, "search"))
	must(t, g.Cool(t.Context(), quota.Cooldown{Account: account, Budget: "searches", For: time.Hour, Reason: "maintenance"}))
	server.Stop()
	must(t, spend(g, "list"))
	server.Restart(t)
	g = process()
	must(t, spend(g, "list"))
	err := spend(g, "search")
	if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Reason != quota.ReasonCooldown {
		t.Errorf("%v; want the cooldown", err)
	}
}

// TestLedgerThatWasLeftForgets: an account has moved to another ledger, and the
// one that it left forgets that. A host that knows of it closes the account
// again, unless it was granted a call since.
func TestLedgerThatWasLeftForgets(t *testing.T) {
	for _, isReopened := range []bool{false, true} {
		server := redistest.Start(t)
		ours, theirs := redisHost(t, server), redisHost(t, server)
		spend := func() error { _, err := calls(ours.process(), 1); return err }
		must(t, spend())
		move := quota.Move{Account: account, Ledger: "sqlite:/new.db", ID: "0123456789ab"}
		must(t, theirs.process().Cool(t.Context(), move.Cooldown()))
		if err := spend(); err == nil {
			t.Fatal("granted")
		}
		if isReopened {
			must(t, theirs.open().ClearCooldown(t.Context(), account, ""))
			must(t, spend())
		}
		server.Do(t, "flushall")
		err := spend()
		if moved, ok := errors.AsType[*quota.MovedError](err); isReopened && err != nil || !isReopened && (!ok || moved.Ledger != move.Ledger) {
			t.Errorf("opened again %t: %v", isReopened, err)
		}
	}
}

// TestArrivalIsRememberedWhileDown: a host that met an account on its way
// to this ledger may not hear that it is there, and uses its allowance when
// the ledger is down. One that has left is not sent to while its old ledger
// is down.
func TestArrivalIsRememberedWhileDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits seven seconds for a ledger that is down")
	}
	t.Parallel()
	for _, arriving := range []bool{false, true} {
		server, u := redistest.Start(t), startUpstream(t)
		ours, theirs := redisHost(t, server), redisHost(t, server)
		move := quota.Move{Account: account, Ledger: "sqlite:/old.db", Arriving: arriving, ID: "0123456789ab"}
		for _, h := range []*host{ours, theirs} {
			if err := h.process().Cool(t.Context(), move.Cooldown()); err != nil {
				t.Fatal(err)
			}
			if _, err := h.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1}); err == nil {
				t.Fatal("granted")
			}
		}
		if arriving {
			if err := theirs.open().ClearCooldown(t.Context(), account, ""); err != nil {
				t.Fatal(err)
			}
		}
		server.Stop()
		for _, h := range []*host{ours, theirs} {
			err := u.send(t, h.process(), 1)
			if moved, ok := errors.AsType[*quota.MovedError](err); arriving && err != nil || !arriving && (!ok || moved.Ledger != move.Ledger) {
				t.Errorf("arriving %v: %v", arriving, err)
			}
		}
	}
}
