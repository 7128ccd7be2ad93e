package journal_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestRaiseWhileTheLedgerIsBusy: another program keeps the file locked while a
// call turns out to cost more, and while the upstream says to stop. Neither
// reached the ledger afterwards: 800 of 500, and 50 calls during the cooldown.
func TestRaiseWhileTheLedgerIsBusy(t *testing.T) {
	for name, want := range map[string]struct {
		learn func(*quota.Guard, *quota.Grant) error
		calls int
	}{
		"raise": {func(_ *quota.Guard, grant *quota.Grant) error { return grant.Settle(context.Background(), 301) }, 199},
		"cooldown": {func(g *quota.Guard, _ *quota.Grant) error {
			return g.Cool(context.Background(), quota.Cooldown{Account: account, For: time.Hour, Reason: "quotaExceeded"})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			file := filepath.Join(root, "ledger", "ration.db")
			inner, err := sqliteledger.Open(file, nil)
			must(t, err)
			l := journal.New(inner, filepath.Join(root, "journal"), &journal.Options{Budgets: budgets})
			defer l.Close()
			g, err := quota.NewGuard(l, budgets, nil)
			must(t, err)
			grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
			must(t, err)
			foreign, err := sql.Open("sqlite", file)
			must(t, err)
			defer foreign.Close()
			foreign.SetMaxOpenConns(1)
			_, err = foreign.Exec("BEGIN IMMEDIATE")
			must(t, err)
			if err := want.learn(g, grant); err == nil {
				t.Error("the ledger was written to, although another program has it locked")
			}
			_, err = foreign.Exec("COMMIT")
			must(t, err)
			if n, err := calls(g, 1000); n != want.calls {
				t.Errorf("%d calls afterwards, %v; want %d", n, err, want.calls)
			}
		})
	}
}

// TestRaiseWhileRedisIsSilent: the answer of a Redis that hangs, and is killed,
// does not say whether it has what a call cost more. It did not: 800 of 500.
func TestRaiseWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, aof...)
	g := redisHost(t, server).process()
	grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	must(t, err)
	server.Hang(t)
	if err := grant.Settle(context.Background(), 301); err == nil {
		t.Error("a server that hangs has answered")
	}
	killed(t, server)
	total := 0
	redistest.Await(t, "a refusal by the budget", func() bool { // calls are refused until the server is asked again
		n, err := calls(g, 1000)
		total += n
		refused, ok := err.(*quota.RefusedError)
		return ok && refused.Limit == 500
	})
	if total != 199 {
		t.Errorf("%d calls afterwards; want 199", total)
	}
}

// unsettling is a ledger that is down whenever a call is settled.
type unsettling struct{ quota.Ledger }

func (unsettling) Settle(context.Context, quota.Receipt, quota.Units) error { return errDown }

func (unsettling) Refund(context.Context, quota.Receipt) error { return errDown }

// TestSettledToNothingIsKept: the error of a call that cost nothing, settled
// while the ledger is down, did not say that the journal keeps that.
func TestSettledToNothingIsKept(t *testing.T) {
	o := newOutage(t, 100, 80)
	g := o.processOn(unsettling{o.faulty})
	for _, units := range []quota.Units{0, 2, 9} {
		grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 5})
		must(t, err)
		if err := grant.Settle(t.Context(), units); !errors.Is(err, quota.ErrLedgerDown) || !strings.HasSuffix(err.Error(), "; the journal of this host keeps what the call cost") {
			t.Errorf("settled to %d: %v", units, err)
		}
		if err := grant.Refund(t.Context()); err == nil || strings.Contains(err.Error(), "keeps") {
			t.Errorf("refunded: %v; want no cost of a call that was not sent", err)
		}
	}
}

// unread is a ledger whose answers to queries of entries are lost.
type unread struct{ quota.Ledger }

func (unread) Entries(context.Context, quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) { yield(quota.Entry{}, quota.ErrInDoubt) }
}

// TestRaiseWhoseEntryIsNotFound: the ledger did not say by which timestamp it
// has a call of the first outage, so what the call turned out to cost was
// settled by another one, without an effect or an error: 580 of 500.
func TestRaiseWhoseEntryIsNotFound(t *testing.T) {
	s := share(t)
	s.down, s.late = true, 3*time.Millisecond // as behind a network
	s.process("ours", func(guard *quota.Guard, l *journal.Ledger) {
		grant, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 20})
		must(t, err)
		s.down = false
		s.spend("ours", 1)
		l.Ledger = unread{l.Ledger}
		if err := grant.Settle(t.Context(), 100); !errors.Is(err, quota.ErrInDoubt) || !strings.HasSuffix(err.Error(), "; the journal of this host keeps what the call cost") {
			t.Errorf("settled: %v; want an answer in doubt", err)
		}
	})
	s.exhaust("ours")
	s.mustBe(400)
	s.mustBeInUse(500)
}

// slow is a ledger that takes two seconds for a decision.
type slow struct {
	quota.Ledger
	clock *ledgertest.Clock
}

func (l slow) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	l.clock.Add(2 * time.Second)
	return l.Ledger.Spend(ctx, batch)
}

// unreachable is a ledger that is down.
type unreachable struct{ quota.Ledger }

func (unreachable) Spend(context.Context, *quota.Batch) ([]quota.Answer, error) { return nil, errDown }

// TestCooldownEndsEarlyAfterASlowAnswer: a host took its clock for two seconds
// behind that of a ledger which had taken as long for a decision. When the
// ledger forgot, or was down, a cooldown was over for it that much too early.
func TestCooldownEndsEarlyAfterASlowAnswer(t *testing.T) {
	for _, isDown := range []bool{false, true} {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		open := func() quota.Ledger { return memledger.Open(&memledger.Options{Now: clock.Now}) }
		ledger := open()
		ours := newHost(t, func() quota.Ledger { return slow{ledger, clock} })
		ours.now = clock.Now
		g := ours.process()
		spend := func(g *quota.Guard) error {
			_, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
			return err
		}
		must(t, spend(g))
		must(t, g.Cool(t.Context(), quota.Cooldown{Account: account, Until: clock.Now().Add(3 * time.Second), Reason: "r"}))
		clock.Add(1500 * time.Millisecond)
		ledger = open()
		ours.open = func() quota.Ledger { return ledger }
		if isDown {
			ours.open = func() quota.Ledger { return unreachable{ledger} }
		}
		refused, ok := errors.AsType[*quota.RefusedError](spend(ours.process()))
		if !ok || refused.Reason != quota.ReasonCooldown || refused.RetryAfter != 1500*time.Millisecond {
			t.Errorf("down %t: %+v; want a cooldown for 1.5 s", isDown, refused)
		}
	}
}

// dying is a ledger whose process is killed when it sets a cooldown.
type dying struct{ quota.Ledger }

func (dying) SetCooldown(context.Context, quota.Cooldown) error { panic("killed") }

// TestLaterCooldownIsNeverSet: a cooldown was set while the ledger was down,
// and a process was killed while it set a later one. The record of that took
// the place of the first one's, and did not say that the ledger lacks it.
func TestLaterCooldownIsNeverSet(t *testing.T) {
	s := share(t)
	s.spend("ours", 1)
	s.process("ours", func(guard *quota.Guard, l *journal.Ledger) {
		defer func() { _ = recover() }()
		cool := func(hours time.Duration) error {
			return guard.Cool(t.Context(), quota.Cooldown{Account: account, Until: s.Now().Add(hours * time.Hour), Reason: "r"})
		}
		l.Ledger = halfDown{l.Ledger}
		if err := cool(1); !errors.Is(err, quota.ErrLedgerDown) {
			t.Errorf("%v; want that the ledger is down", err)
		}
		l.Ledger = dying{l.Ledger}
		_ = cool(2)
	})
	s.exhaust("ours")
	s.mustBe(1)
}
