package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestOfCallersThatClaimAtOnceOneGetsIt: whether they are of one process or
// of several.
func TestOfCallersThatClaimAtOnceOneGetsIt(t *testing.T) {
	for i := range 300 {
		store := memledger.Open(nil)
		shared := engine.New(store, nil).Account("a")
		var taken atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			a := engine.New(store, nil).Account("a")
			if isOneProcess := i%2 == 0; isOneProcess {
				a = shared
			}
			if err := a.View(t.Context(), func(*engine.View) {}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				_, err := a.Claim(t.Context(), claiming("owner"))
				if err == nil {
					taken.Add(1)
				} else if !errors.Is(err, engine.ErrClaimed) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := taken.Load(); n != 1 {
			t.Fatalf("%d callers have the claim", n)
		}
	}
}

// TestAClaimOfACallerThatHasLeftIsFree: it got an error, and will not end it.
func TestAClaimOfACallerThatHasLeftIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &gatedLedger{Ledger: memledger.Open(nil), gate: make(chan struct{})}
		a := engine.New(ledger, nil).Account(account)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := a.Claim(ctx, claiming("one")); err == nil {
				t.Error("it got the claim")
			}
		}()
		synctest.Wait() // its append is held back
		cancel()
		synctest.Wait()
		close(ledger.gate)
		synctest.Wait()
		if _, err := a.Claim(t.Context(), claiming("two")); err != nil {
			t.Error(err) // it is held by the caller that has left
		}
	})
}
