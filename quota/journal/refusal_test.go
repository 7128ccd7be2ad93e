package journal_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// repeating is a ledger whose first answer to each batch is lost.
type repeating struct{ quota.Ledger }

func (r repeating) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	own := *batch
	own.Client, own.Seq = quota.NewClient(), 1
	if answers, err := r.Ledger.Spend(ctx, &own); err != nil || answers[0].Err != nil {
		return answers, err
	}
	return r.Ledger.Spend(ctx, &own)
}

// TestRepeatedAnswerSaysNothing: the answer to a batch that was sent again does
// not say what its budgets hold. A host that got no other would not know what
// others had spent when the ledger forgets it.
func TestRepeatedAnswerSaysNothing(t *testing.T) {
	u, ledger := startUpstream(t), memledger.Open(nil)
	ours := newHost(t, func() quota.Ledger { return repeating{ledger} })
	theirs := newHost(t, func() quota.Ledger { return ledger })
	u.spend(t, theirs.process(), 300)
	u.spend(t, ours.process(), 1)
	ledger = memledger.Open(nil)
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// silent is a ledger that does not say what its newest entry is.
type silent struct{ quota.Ledger }

func (l silent) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	if query.Newest {
		return unread(l).Entries(ctx, query)
	}
	return l.Ledger.Entries(ctx, query)
}

// TestRepeatedAnswerIsHeardInPart: a host that got a repeated answer had heard
// what the budgets held, and forgot it since the answer to its question for the
// newest entry was lost. 800 of 500.
func TestRepeatedAnswerIsHeardInPart(t *testing.T) {
	u, ledger := startUpstream(t), memledger.Open(nil)
	ours := newHost(t, func() quota.Ledger { return silent{repeating{ledger}} })
	theirs := newHost(t, func() quota.Ledger { return ledger })
	u.spend(t, theirs.process(), 300)
	u.spend(t, ours.process(), 1)
	ledger = memledger.Open(nil)
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// losing is a ledger that another takes the place of before it says what
// budgets hold.
type losing struct {
	quota.Ledger
	next quota.Ledger
}

func (l *losing) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	if charges[0].Budget != "" { // not only for the ledger's clock
		l.Ledger = l.next
	}
	return l.Ledger.Standings(ctx, account, key, charges)
}

// TestLogIsLostBeforeItIsAsked: a ledger forgets all between a repeated answer
// and the question of what its budgets hold. That they held nothing, which the
// host believed of the log that is lost, made it forget what others had spent.
func TestLogIsLostBeforeItIsAsked(t *testing.T) {
	u, ledger, next := startUpstream(t), memledger.Open(nil), memledger.Open(nil)
	ours := newHost(t, func() quota.Ledger { return ledger })
	theirs := newHost(t, func() quota.Ledger { return ledger })
	u.spend(t, theirs.process(), 300)
	u.spend(t, ours.process(), 1)
	ours.open = func() quota.Ledger { return &losing{repeating{ledger}, next} }
	u.spend(t, ours.process(), 1)
	ledger = next
	ours.open = theirs.open
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// TestRefusedHostForgetsThatNothingIsLeft: a host that others have left
// nothing, and that was refused, is granted nothing while Redis is down, and
// nothing when it returns alone to a Redis that has forgotten everything.
func TestRefusedHostForgetsThatNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a ledger that is down")
	}
	server, u := redistest.Start(t), startUpstream(t)
	ours, theirs, fresh := redisHost(t, server), redisHost(t, server), redisHost(t, server)
	g := ours.process()
	u.spend(t, g, 10)
	u.spend(t, theirs.process(), 490)
	for _, g := range []*quota.Guard{g, fresh.process()} { // fresh was never granted anything
		if err := u.send(t, g, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
	}
	server.Stop()
	for _, g := range []*quota.Guard{g, ours.process(), fresh.process()} {
		_ = u.send(t, g, 100)
	}
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream with Redis down; want 500", hits)
	}
	server.Restart(t)
	u.exhaust(t, fresh.process()) // alone, it notices by the epoch of its refusal
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream once Redis had forgotten; want 500", hits)
	}
}

// TestRefusalOfALaterLog: the refusal that a new host was told is not of the
// log that an absent host knows, whose calls come on top.
func TestRefusalOfALaterLog(t *testing.T) {
	server, u := redistest.Start(t), startUpstream(t)
	first, second, refused := redisHost(t, server), redisHost(t, server), redisHost(t, server)
	u.spend(t, first.process(), 100)
	server.Do(t, "FLUSHALL")
	u.spend(t, second.process(), 450)
	g := refused.process()
	if _, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 60}); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	u.spend(t, g, 1)
	server.Do(t, "FLUSHALL")
	u.spend(t, refused.process(), 1)
	u.exhaust(t, first.process())
	if hits := u.hits.Load(); hits != 552 {
		t.Errorf("%d calls reached the upstream; want 552, none after the third host had restored what it was told", hits)
	}
}

// TestRefusalIsNotInTheCopy: an older copy takes the ledger's place that has
// the newest grant of a host, or is of a time before the host was granted
// anything. What others had spent until it was refused was admitted again: 980
// of 500.
func TestRefusalIsNotInTheCopy(t *testing.T) {
	for _, name := range []string{"kill -9 with RDB only", "older copy of the AOF"} {
		for host, own := range map[string]int{"host with grants": 10, "host that was only refused": 0} {
			t.Run(name+"/"+host, func(t *testing.T) {
				fault, u := forgetfuls[name], startUpstream(t)
				server := redistest.Start(t, fault.args...)
				ours, theirs := redisHost(t, server), redisHost(t, server)
				u.spend(t, theirs.process(), 10)
				u.spend(t, ours.process(), own)
				fault.before(t, server)
				u.spend(t, theirs.process(), 490-own)
				u.exhaust(t, ours.process())
				fault.forget(t, server)
				u.exhaust(t, ours.process())
				u.exhaust(t, theirs.process())
				if hits := u.hits.Load(); hits != 500 {
					t.Errorf("%d calls reached the upstream; want 500", hits)
				}
			})
		}
	}
}

// TestRefusalFindsANote: the newest entry is the note of another host's
// restoration, which goes when its calls are restored. A host that took it for
// an entry would find the ledger forgetful then.
func TestRefusalFindsANote(t *testing.T) {
	server, u := redistest.Start(t), startUpstream(t)
	first, second, refused := redisHost(t, server), redisHost(t, server), redisHost(t, server)
	u.spend(t, first.process(), 100)
	u.spend(t, second.process(), 1)
	u.spend(t, first.process(), 399)
	u.exhaust(t, second.process())
	server.Do(t, "FLUSHALL")
	u.exhaust(t, second.process()) // restores its call, and notes 499
	u.exhaust(t, refused.process())
	u.exhaust(t, first.process())
	l := journal.New(refused.open(), refused.dir, &journal.Options{Budgets: budgets})
	defer l.Close()
	if granted, err := l.Missing(t.Context(), account); !granted.IsZero() || err != nil {
		t.Errorf("%s, %v; want nothing missing", granted, err)
	}
}

// TestSecondRefusalSaysTheSame: a host was refused twice within a second, and
// the second refusal said the same, after units had been refunded and spent. It
// was not kept, nor for two minutes if the log was ahead of the ledger's clock:
// 999 of 500.
func TestSecondRefusalSaysTheSame(t *testing.T) {
	s := share(t)
	s.spend("ours", 1)
	call := func(l *journal.Ledger, units quota.Units) (*quota.Grant, error) {
		guard, err := quota.NewGuard(l, s.budgets, nil)
		must(t, err)
		return guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: units})
	}
	refused := func(l *journal.Ledger) {
		t.Helper()
		if _, err := call(l, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
	}
	var older func()
	s.process("theirs", func(_ *quota.Guard, theirs *journal.Ledger) {
		grant, err := call(theirs, 499)
		must(t, err)
		s.process("ours", func(_ *quota.Guard, ours *journal.Ledger) {
			refused(ours)
			must(t, grant.Refund(t.Context()))
			older = s.keep()
			_, err := call(theirs, 499)
			must(t, err)
			refused(ours)
		})
	})
	s.sent += 499
	older()
	s.exhaust("ours")
	s.mustBe(500)
}
