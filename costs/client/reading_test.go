package client

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// idleHost is a client that only keeps reading, and what it has reported.
type idleHost struct {
	client   *Client
	guard    *quota.Guard
	ledger   *failingLedger
	mu       sync.Mutex
	reported []error
}

func newIdleHost(t *testing.T, ledger *memledger.Ledger) *idleHost {
	h := &idleHost{}
	h.client, h.guard, h.ledger = openFailing(t, ledger, filepath.Join(t.TempDir(), "state"), func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reported = append(h.reported, err)
	})
	return h
}

// keepReading reads until the test ends.
func (h *idleHost) keepReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.client.KeepReading(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
}

// passes lets time pass.
func (h *idleHost) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// found returns the last error of a type that was reported.
func found[E error](h *idleHost) (last E, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, err := range h.reported {
		if one, is := errors.AsType[E](err); is {
			last, ok = one, true
		}
	}
	return last, ok
}

// TestIdleHostRestoresALossWithin90Seconds: it makes no call, and has only
// heard of those of another process.
func TestIdleHostRestoresALossWithin90Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memledger.Open(nil)
		h := newIdleHost(t, shared)
		_, other, _ := openFailing(t, shared, filepath.Join(t.TempDir(), "state"), func(error) {})
		h.keepReading(t)
		if _, err := other.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); err != nil {
			t.Fatal(err)
		}
		h.passes(time.Minute)
		lost := memledger.Open(nil) // the ledger has forgotten everything
		h.ledger.up.Store(lost)
		h.passes(90 * time.Second)
		if restored, ok := found[*RestoredError](h); !ok || !restored.Lost || restored.Units != 3 {
			t.Errorf("%v; want that three units were restored", h.reported)
		}
		_, after, _ := openFailing(t, lost, filepath.Join(t.TempDir(), "state"), func(error) {})
		if balances, err := after.Balances(t.Context()); err != nil || balances[0].Used != 3 {
			t.Errorf("%+v, %v; want three units used", balances, err)
		}
	})
}

// TestIdleHostReportsAnOutageAndItsEnd: without a call of its own.
func TestIdleHostReportsAnOutageAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newIdleHost(t, memledger.Open(nil))
		h.keepReading(t)
		for _, isDown := range []bool{true, false} {
			h.ledger.isDown.Store(isDown)
			h.passes(90 * time.Second)
			if outage, ok := found[*OutageError](h); !ok || outage.Down != isDown {
				t.Errorf("%v; want the outage, and that the ledger is down: %t", h.reported, isDown)
			}
		}
	})
}

// TestIdleHostReportsAMoveOnce: of an account that ration ledger copy has
// moved.
func TestIdleHostReportsAMoveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		h := newIdleHost(t, ledger)
		h.keepReading(t)
		move := quota.MovedError{Account: "p", Ledger: "redis://there:6379/2"}
		if err := testledger.CloseAccount(t.Context(), ledger, move); err != nil {
			t.Fatal(err)
		}
		h.passes(3 * time.Minute)
		if moved, ok := found[*quota.MovedError](h); !ok || moved.Ledger != move.Ledger || len(h.reported) != 1 {
			t.Errorf("%v; want one report of the move", h.reported)
		}
	})
}

// TestReportMayDescribeAnOutage: a Report that asks what the host has sent
// returns at once, although the ledger is being asked meanwhile.
func TestReportMayDescribeAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var client atomic.Pointer[Client]
		var texts []string
		c, guard, ledger := openFailing(t, memledger.Open(nil), filepath.Join(t.TempDir(), "state"), func(err error) {
			if outage, ok := errors.AsType[*OutageError](err); ok {
				texts = append(texts, client.Load().DescribeOutage(outage))
			}
		})
		client.Store(c)
		began := time.Now()
		for _, isDown := range []bool{true, false, true} {
			ledger.isDown.Store(isDown)
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		if took := time.Since(began); took != 9*time.Second || len(texts) != 5 {
			t.Errorf("%s, %q; want five texts, and no wait for them", took, texts)
		}
	})
}
