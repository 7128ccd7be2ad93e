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

// TestProcessKnowsOnlyItsOwnGrants: a ledger that went back to between the
// newest grants of two processes of a host seemed complete to the earlier one.
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

// TestAllowanceForgetsItsClock: how far a host's clock is ahead is known from
// an answer of the ledger. Refusals and outages can outlast its record, and an
// outage can come before it: what was granted meanwhile left the allowance
// early, by the error of the clock.
func TestAllowanceForgetsItsClock(t *testing.T) {
	type step struct {
		after  time.Duration
		isDown bool
	}
	for name, test := range map[string]struct {
		ahead time.Duration
		steps []step
		last  time.Duration // a third call within the allowance, of 2
	}{
		"the record is gone": {3 * time.Minute, []step{{0, false}, {40 * time.Hour, true}, {63 * time.Hour, true}}, 64*time.Hour - time.Minute},
		"the record is late": {-3 * time.Minute, []step{{0, true}, {22 * time.Hour, false}, {23 * time.Hour, true}}, 24*time.Hour - 2*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inner, dir, now := failing(nil), t.TempDir(), noon
			inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return now.Add(-test.ahead) }})
			run := func(s step) (err error) { // in a process of its own
				now = noon.Add(s.after)
				if inner.fail(nil); s.isDown {
					inner.fail(errDown)
				}
				synctest.Test(t, func(t *testing.T) {
					l := journal.New(inner, dir, &journal.Options{Allow: func(quota.Call) quota.Units { return 2 }, Now: func() time.Time { return now }})
					_, err = spend(t.Context(), l, "m", 1)
					_ = l.Close()
				})
				return err
			}
			for _, s := range test.steps {
				if err := run(s); err != nil {
					t.Fatalf("after %s: %v", s.after, err)
				}
			}
			if err := run(step{test.last, true}); err == nil {
				t.Error("granted three calls within a day, of an allowance of two")
			}
		})
	}
}

// TestCallsOfASlowHostReturnEarly: a host whose clock is behind, and that has
// not reached the ledger before, stamped the calls of an outage too early.
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

// TestClockIsCorrectedInAnOutage: a call of an outage leaves its windows
// earlier by as much as the host's clock was behind, and by no more, if that is
// corrected before the ledger is back.
func TestClockIsCorrectedInAnOutage(t *testing.T) {
	inner := failing(errDown)
	inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return noon }})
	behind := 4 * time.Minute
	batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1}}}
	synctest.Test(t, func(t *testing.T) {
		l := journal.New(inner, t.TempDir(), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 10 }, Now: func() time.Time { return noon.Add(-behind) }})
		defer l.Close()
		for range 2 {
			if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
				t.Fatal(err, answers)
			}
			behind = 0
			inner.fail(nil)
			time.Sleep(time.Minute)
		}
		for e := range inner.Entries(t.Context(), quota.Query{Account: account}) {
			if early := noon.Sub(e.At); early != 4*time.Minute {
				t.Errorf("stamped %s early; docs/faults.md states 4m0s", early)
			}
			return
		}
		t.Error("the call of the outage is not in the ledger")
	})
}
