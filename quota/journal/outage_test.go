package journal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

// A ledger that hangs for a second before it fails delays one call by two
// seconds, because that call is tried twice, then none for two seconds, for one
// caller or many. It is used again once it is back.
func TestBreaker(t *testing.T) {
	for _, failure := range []error{errDown} {
		synctest.Test(t, func(t *testing.T) {
			inner := failing(failure)
			inner.hang = time.Second
			l := journal.New(inner, t.TempDir(), allow(1000))
			_, _ = spend(t.Context(), l, "m", 1)
			began := time.Now()
			for range 100 {
				if _, err := spend(t.Context(), l, "m", 1); err != nil {
					t.Fatalf("%v: not taken for down: %v", failure, err)
				}
			}
			if asks, took := inner.asks.Load(), time.Since(began); asks != 2 || took != 0 {
				t.Fatalf("%v: asked %d times, in %s more", failure, asks, took)
			}
			inner.fail(errDown)
			crowd := func() {
				time.Sleep(2 * time.Second) // of the bubble's time
				var wg sync.WaitGroup
				before := inner.asks.Load()
				for range 10 {
					wg.Go(func() { _, _ = spend(t.Context(), l, "m", 1) })
				}
				wg.Wait()
				if asks := inner.asks.Load() - before; asks != 1 {
					t.Fatalf("%v: %d asks at once; want 1", failure, asks)
				}
			}
			crowd()

			// A canceled call does not decide whether the ledger is down.
			time.Sleep(2 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := spend(ctx, l, "m", 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("caller gone: %v", err)
			}
			crowd()
			time.Sleep(2 * time.Second)
			inner.fail(nil)
			before, _ := l.Unrecorded(account)
			grant, err := spend(t.Context(), l, "m", 1)
			if err != nil || inner.asks.Load() != 6 {
				t.Fatalf("back: %v after %d asks", err, inner.asks.Load())
			}
			unrecorded(t, l, 0)
			recorded := quota.Units(0)
			for e := range inner.Entries(t.Context(), quota.Query{Account: account}) {
				recorded += e.Units
			}
			if recorded != before+1 || grant.Epoch == 0 {
				t.Fatalf("the ledger holds %d units, and granted %+v; want the %d of the outage and one", recorded, grant, before)
			}
			if _, err := l.Standings(t.Context(), account, "", nil); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// slowStandings is a ledger whose first Standings says that it has begun, and
// waits.
type slowStandings struct {
	during
	began, answer chan struct{}
}

func (s *slowStandings) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	close(s.began)
	<-s.answer
	return s.Ledger.Standings(ctx, account, key, charges)
}

// TestAskedAfterAnotherAnswer: a call that was sent before the ledger failed
// found it back while another asked. The ledger was then never asked again once
// it failed anew.
func TestAskedAfterAnotherAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := failing(nil)
		var before, after func()
		slow := &slowStandings{during{inner, &before, &after}, make(chan struct{}), make(chan struct{})}
		l := journal.New(slow, t.TempDir(), nil)
		fail := func(err error) {
			inner.fail(err)
			if _, err := spend(t.Context(), l, "m", 1); !errors.Is(err, errDown) {
				t.Errorf("%v; want %v", err, errDown)
			}
			time.Sleep(2 * time.Second) // of the bubble's time
			inner.fail(nil)
		}
		answered := make(chan error)
		go func() {
			_, err := l.Standings(t.Context(), account, "", nil)
			answered <- err
		}()
		<-slow.began
		fail(errDown)
		before = func() {
			close(slow.answer)
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if _, err := spend(t.Context(), l, "m", 1); err != nil {
				t.Errorf("the ledger is back: %v", err)
			}
			fail(errDown)
		}
	})
}

// TestDoubtWhileOthersFindItDown: a call that may have been charged was granted
// again within the allowance, if another had found the ledger down meanwhile.
func TestDoubtWhileOthersFindItDown(t *testing.T) {
	o := newOutage(t, 100, 80)
	var before, after func()
	g := o.processOn(during{o.faulty, &before, &after})
	before = func() {
		o.fail(errDown)
		if n, err := calls(g, 1); n != 1 {
			t.Errorf("%v; want a grant within the allowance", err)
		}
		o.fail(quota.ErrInDoubt)
	}
	if n, err := calls(g, 1); n != 0 || !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%d granted, %v; want an answer in doubt", n, err)
	}
}

// TestCallersDeadlineOpensNothing: a look at a Redis that hangs ends by its
// caller's deadline. That says nothing about the ledger, which grants the next
// call.
func TestCallersDeadlineOpensNothing(t *testing.T) {
	server := redistest.Start(t)
	inner, err := redisledger.Open(server.URL(), nil)
	must(t, err)
	o := newOutage(t, 100, 80)
	o.faulty.Ledger = inner
	g := o.process()
	if n, err := calls(g, 10); n != 10 {
		t.Fatal(n, err)
	}
	server.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // of which the tries leave some
	defer cancel()
	_, err = g.Balances(ctx)
	server.GoOn(t)
	if err == nil {
		t.Error("a server that hangs has answered")
	}
	grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	if _, byLedger := grant.Tightest(); err != nil || !byLedger {
		t.Errorf("%v; want a grant of the ledger: %t", err, byLedger)
	}
}

// TestImpatientCallerAsks: a ledger that is still down says so to a caller
// with little time left. The next calls do not ask it for another two seconds.
func TestImpatientCallerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := failing(errDown)
		l := journal.New(inner, t.TempDir(), allow(1000))
		spendSoon := func() int64 {
			before := inner.asks.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := spend(ctx, l, "m", 1); err != nil {
				t.Fatal(err)
			}
			return int64(inner.asks.Load() - before)
		}
		_, _ = spend(t.Context(), l, "m", 1)
		time.Sleep(2 * time.Second) // of the bubble's time
		if first, next := spendSoon(), spendSoon(); first != 1 || next != 0 {
			t.Errorf("the ledger was asked %d times by the first call, and %d after it; want 1 and 0", first, next)
		}
	})
}
