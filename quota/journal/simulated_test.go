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

// TestClockIsCorrectedInAnOutage: a call of an outage has its own time,
// whatever the host's clock shows then and later. A host that cannot tell how
// long it runs, or was started anew, dates it by its clock: if that was behind
// and is corrected, earlier by as much, and by no more.
func TestClockIsCorrectedInAnOutage(t *testing.T) {
	for _, c := range []struct {
		boots         [2]uint64 // at the call, and when the ledger is back
		then, later   time.Duration
		early, isLate time.Duration // of the date, at most
	}{
		{boots: [2]uint64{1, 1}, then: -4 * time.Minute},
		{boots: [2]uint64{1, 1}, then: 4 * time.Minute},
		{boots: [2]uint64{1, 1}, then: -90 * time.Minute, later: time.Hour},
		{boots: [2]uint64{1, 1}, then: 2 * time.Minute, later: 2 * time.Minute},
		{boots: [2]uint64{1, 2}, then: -4 * time.Minute, early: 4 * time.Minute},
		{boots: [2]uint64{0, 0}, then: -4 * time.Minute, early: 4 * time.Minute},
		{boots: [2]uint64{0, 0}, then: 2 * time.Minute, later: 2 * time.Minute, isLate: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner, began := failing(errDown), time.Now()
			inner.Ledger = memledger.Open(nil)
			ahead, boot := c.then, c.boots[0]
			batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1}}}
			l := journal.New(inner, t.TempDir(), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 10 },
				Now: func() time.Time { return time.Now().Add(ahead) }, Uptime: func() (uint64, time.Duration) { return boot, time.Since(began) }})
			defer l.Close()
			for range 2 {
				if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
					t.Fatal(err, answers)
				}
				ahead, boot = c.later, c.boots[1]
				inner.fail(nil)
				time.Sleep(time.Minute)
			}
			want := began.Add(c.isLate - c.early)
			for e := range inner.Entries(t.Context(), quota.Query{Account: account}) {
				if !e.At.Equal(want) {
					t.Errorf("%+v: a call of %s is dated %s; want %s", c, began.Format(time.TimeOnly), e.At.Format(time.TimeOnly), want.Format(time.TimeOnly))
				}
				return
			}
			t.Error("the call of the outage is not in the ledger")
		})
	}
}

// TestDateOfARepeatedCall: a call of an outage that was refunded afterwards is
// made again, by its id, in the next outage, which may lose the log. It had the
// date of the first one.
func TestDateOfARepeatedCall(t *testing.T) {
	for _, isLost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			inner, began, o := failing(errDown), time.Now(), allow(10)
			o.Budgets, o.Now = budgets, time.Now
			o.Uptime = func() (uint64, time.Duration) { return 1, time.Since(began) }
			l := journal.New(inner, t.TempDir(), o)
			defer l.Close()
			batch := &quota.Batch{Account: account, Client: 7, Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1}}}
			for range 2 {
				inner.fail(errDown)
				answers, err := l.Spend(t.Context(), batch)
				if err != nil || answers[0].Err != nil {
					t.Fatal(err, answers)
				}
				made, held := time.Now(), quota.Units(0)
				time.Sleep(time.Hour)
				if isLost {
					inner.Ledger = memledger.Open(nil)
				}
				inner.fail(nil)
				if _, err := spend(t.Context(), l, "n", 1); err != nil {
					t.Fatal(err)
				}
				for e, err := range inner.Entries(t.Context(), quota.Query{Account: account, Since: began}) {
					must(t, err)
					if e.Method == "m" && e.Units > 0 {
						held += e.Units
						if !e.At.Equal(made) {
							t.Errorf("lost %t: a call of %s is dated %s", isLost, made, e.At)
						}
					}
				}
				if held != 1 {
					t.Errorf("lost %t: %d units; want the call", isLost, held)
				}
				must(t, l.Refund(t.Context(), answers[0].Receipt))
				time.Sleep(time.Hour)
			}
		})
	}
}

// TestDatesHold: calls of an outage that a new host had stamped ahead got other
// times in the log than in its journal. When the log was lost, it noted beside
// them what it had heard of them, as what others had spent.
func TestDatesHold(t *testing.T) {
	for _, boot := range []uint64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			inner, began, dir := failing(errDown), time.Now(), t.TempDir()
			o := allow(10)
			o.Budgets, o.Now = budgets, func() time.Time { return time.Now().Add(4 * time.Minute) }
			o.Uptime = func() (uint64, time.Duration) { return boot, time.Since(began) }
			day := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 500, Window: quota.Sliding(24 * time.Hour)}
			batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}}
			call := func() {
				l := journal.New(inner, dir, o)
				defer l.Close()
				if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
					t.Fatal(err, answers)
				}
				time.Sleep(time.Second)
			}
			for range 5 {
				call()
			}
			inner.fail(nil)
			call()
			inner.Ledger = memledger.Open(nil) // it has lost all
			call()
			time.Sleep(10 * time.Minute)
			call()
			var entries, units quota.Units
			for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
				must(t, err)
				entries, units = entries+1, units+e.Units
				if e.At.After(time.Now()) || e.Kind == quota.EntryNote {
					t.Errorf("%+v; want neither a note nor a call of the future", e)
				}
			}
			if entries != 8 || units != 8 {
				t.Errorf("%d entries of %d units; want those of 8 calls", entries, units)
			}
		})
	}
}
