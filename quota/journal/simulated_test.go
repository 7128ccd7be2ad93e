package journal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// These tests show failures that the simulator found.

// knowing records what the batches of a ledger know.
type knowing struct {
	quota.Ledger
	known quota.Receipt
}

func (k *knowing) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	k.known = batch.Known
	return k.Ledger.Spend(ctx, batch)
}

// TestProcessKnowsOnlyItsOwnGrants: a ledger that went back to between the newest
// grants of two processes of a host seemed complete to the earlier one.
func TestProcessKnowsOnlyItsOwnGrants(t *testing.T) {
	mem, dir := memledger.Open(nil), t.TempDir()
	spend := func(l quota.Ledger) quota.Receipt {
		t.Helper()
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
		return answers[0].Receipt
	}
	first, second := &knowing{Ledger: mem}, &knowing{Ledger: mem}
	a, b := journal.New(first, dir, nil), journal.New(second, dir, nil)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	newest := spend(a)
	for range 3 {
		for _, p := range []struct {
			ledger quota.Ledger
			asked  *knowing
		}{{b, second}, {a, first}, {a, first}} {
			now := spend(p.ledger)
			if p.asked.known.ID != newest.ID || !p.asked.known.At.Equal(newest.At) {
				t.Fatalf("knows %+v; want %+v", p.asked.known, newest)
			}
			newest = now
		}
	}
}

// TestCallsOfASlowHostReturnEarly: a host whose clock is behind, and that has not
// reached the ledger before, stamped the calls of an outage too early.
func TestCallsOfASlowHostReturnEarly(t *testing.T) {
	inner := failing(errDown)
	inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return noon }})
	allow := func(quota.Call) quota.Units { return 10 }
	batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1}}}
	synctest.Test(t, func(t *testing.T) {
		l := journal.New(inner, t.TempDir(), &journal.Options{Allow: allow, Now: func() time.Time { return noon.Add(-time.Hour) }})
		defer l.Close()
		if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
		inner.fail(nil)
		time.Sleep(time.Minute)
		if _, err := l.Spend(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for e := range inner.Entries(t.Context(), quota.Query{Account: account}) {
			if e.At.Before(noon) {
				t.Errorf("stamped %s; want %s or later", e.At, noon)
			}
		}
	})
}
