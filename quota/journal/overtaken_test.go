package journal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// during is a ledger that calls two functions once: before it decides a batch,
// and before its answer arrives.
type during struct {
	quota.Ledger
	before, after *func()
}

func (d during) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	once(d.before)
	answers, err := d.Ledger.Spend(ctx, batch)
	once(d.after)
	return answers, err
}

func once(f *func()) {
	if call := *f; call != nil {
		*f = nil
		call()
	}
}

// TestLedgerAndAllowanceGrantAtOnce: when the ledger is back for one process of
// a host and still down for another, both granted what was left.
func TestLedgerAndAllowanceGrantAtOnce(t *testing.T) {
	for _, later := range []string{"the ledger", "the allowance"} {
		t.Run(later+" is later", func(t *testing.T) {
			h := newOutage(t, 100, 80)
			var deciding, never func()
			asks, allowing := 0, func() {}
			open := func(l quota.Ledger) *quota.Guard {
				j := journal.New(l, h.dir, &journal.Options{Budgets: h.budgets(), Allow: func(quota.Call) quota.Units {
					if asks++; asks%2 == 0 { // then it has read the journal, and decides
						allowing()
					}
					return h.allow
				}})
				g, err := quota.NewGuard(j, h.budgets(), nil)
				must(t, err)
				return g
			}
			back := open(during{h.faulty.Ledger, &never, &deciding})
			h.fail(errDown)
			behind := open(h.faulty)
			if n, err := calls(back, 30); n != 30 {
				t.Fatal(n, err)
			}
			within, byLedger := 0, 0
			if later == "the ledger" {
				deciding = func() { within, _ = calls(behind, 100) }
			} else {
				allowing = func() {
					allowing = func() {}
					byLedger, _ = calls(back, 100)
				}
				within, _ = calls(behind, 100)
			}
			n, _ := calls(back, 100)
			byLedger += n
			if within+byLedger != 70 {
				t.Errorf("%d calls within the allowance and %d of the ledger; want 70", within, byLedger)
			}
			balances, err := back.Balances(t.Context())
			if err != nil || balances[0].Used != 100 {
				t.Errorf("%d used, %v; want 100", balances[0].Used, err)
			}
		})
	}
}

// restoring is a ledger that calls two functions once: before and after it
// restores a log.
type restoring struct {
	quota.Ledger
	before, after *func()
}

func (r restoring) Restore(ctx context.Context, what *quota.Restoration) (quota.RestoreResult, error) {
	once(r.before)
	defer once(r.after)
	return r.Ledger.Restore(ctx, what)
}

// TestAnswerDuringARestoration: a call was answered before another process of
// the host restored the log, and reached the journal after that had been read
// for it. The new log did not get it, or what was restored looked heard.
func TestAnswerDuringARestoration(t *testing.T) {
	for name, test := range map[string]struct{ lost, after bool }{
		"of an outage":                 {},
		"of an outage, arrives after":  {after: true},
		"of a loss":                    {lost: true},
		"of a loss, and arrives after": {lost: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 100, 80)
			if test.lost {
				o.allow = 0
			}
			var deciding, decided, collected, restored func()
			answered := o.processOn(during{o.faulty, &deciding, &decided})
			other := o.processOn(restoring{o.faulty, &collected, &restored})
			behind := o.processOn(failing(errDown))
			total := 0
			spend := func(g *quota.Guard, most int) {
				n, _ := calls(g, most)
				total += n
			}
			spend(answered, 30)
			isDecided, arrives, done := make(chan bool), make(chan bool), make(chan int)
			if !test.lost {
				deciding = func() { spend(behind, 20) }
			}
			decided = func() { close(isDecided); <-arrives }
			go func() { n, _ := calls(answered, 1); done <- n }()
			<-isDecided
			arrive := func() { close(arrives); total += <-done }
			if test.lost {
				o.faulty.Ledger = memledger.Open(nil)
			}
			if !test.after {
				collected = arrive
			}
			restored = func() { o.fail(errDown) } // before anybody hears of it, or anything is restored again
			spend(other, 1)
			if test.after {
				arrive()
			}
			if !test.lost {
				spend(behind, 100)
			}
			o.fail(nil)
			spend(o.process(), 100)
			balances, err := o.process().Balances(t.Context())
			if err != nil || total != 100 || balances[0].Used != 100 {
				t.Errorf("%d calls, %d used, %v; want 100 of both", total, balances[0].Used, err)
			}
		})
	}
}

// TestRepeatedCallIsWithdrawn: a call that had been sent was refunded when it
// was repeated by its id while the log was restored.
func TestRepeatedCallIsWithdrawn(t *testing.T) {
	for _, count := range []int{1, 50} {
		o := newOutage(t, 100, 0)
		var never, decided func()
		answered, other := o.processOn(during{o.faulty, &never, &decided}), o.process()
		call := quota.Call{Account: account, Method: "m", Units: 1, ID: quota.NameID("a name", "")}
		_, err := answered.SpendTogether(t.Context(), call, count, 0)
		must(t, err)
		sent := count
		decided = func() {
			o.faulty.Ledger = memledger.Open(nil)
			n, _ := calls(other, 1)
			sent += n
		}
		_, _ = answered.SpendTogether(t.Context(), call, count, 0) // not sent again
		n, _ := calls(o.process(), 200)
		if sent += n; sent > 100 || count == 1 && sent < 100 { // a new log charges most of several again
			t.Errorf("%d calls, %d of them repeated; want 100", sent, count)
		}
	}
}

// TestWithdrawnCallHasAnID: a call with an id that was withdrawn is tried again
// under it, and charged if there is room.
func TestWithdrawnCallHasAnID(t *testing.T) {
	o := newOutage(t, 100, 80)
	var never, decided func()
	answered := o.processOn(during{o.faulty, &never, &decided})
	behind := o.processOn(failing(errDown))
	if n, err := calls(answered, 30); n != 30 {
		t.Fatal(err)
	}
	decided = func() {
		if n, _ := calls(behind, 100); n != 70 {
			t.Errorf("%d within the allowance; want 70", n)
		}
	}
	call := quota.Call{Account: account, Method: "m", Units: 1, ID: quota.NameID("a name", "")}
	if _, err := answered.Spend(t.Context(), call); !errors.Is(err, quota.ErrLedgerBusy) || errors.Is(err, quota.ErrReused) {
		t.Errorf("%v; want a busy ledger", err)
	}
	if _, err := answered.Spend(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal", err)
	}
}

// TestCostRisesDuringARestoration: what a call turned out to cost was written
// after the journal had been read to restore it, and looked restored.
func TestCostRisesDuringARestoration(t *testing.T) {
	for name, test := range map[string]struct{ lost, after bool }{
		"of an outage": {}, "of an outage, after it": {after: true}, "of a loss": {lost: true}, "of a loss, after it": {lost: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 100, 80)
			var collected, restored func()
			g, other := o.process(), o.processOn(restoring{o.faulty, &collected, &restored})
			if n, err := calls(g, 10); n != 10 {
				t.Fatal(err)
			}
			if !test.lost {
				o.fail(errDown)
			}
			grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
			must(t, err)
			settle := func() {
				if err := grant.Settle(context.Background(), 41); err != nil {
					t.Error(err)
				}
			}
			if test.after {
				restored = settle
			} else {
				collected = settle
			}
			if test.lost {
				o.faulty.Ledger = memledger.Open(nil)
			}
			o.fail(nil)
			first, _ := calls(other, 1)
			n, _ := calls(o.process(), 200)
			if units := 10 + 41 + first + n; units != 100 {
				t.Errorf("%d units; want 100", units)
			}
		})
	}
}

// TestHourTurnsDuringADecision: what others append to the next file of the
// journal is seen too.
func TestHourTurnsDuringADecision(t *testing.T) {
	for _, lost := range []bool{false, true} {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 22, 12, 59, 59, 0, time.UTC))
		o := newOutage(t, 100, 80)
		o.now = clock.Now
		o.faulty.Ledger = memledger.Open(&memledger.Options{Now: clock.Now})
		var never, decided func()
		back, behind := o.processOn(during{o.faulty, &never, &decided}), o.processOn(failing(errDown))
		sent := 0
		spend := func(g *quota.Guard, most int) {
			n, _ := calls(g, most)
			sent += n
		}
		spend(back, 30)
		decided = func() {
			clock.Add(2 * time.Second)
			if lost {
				o.faulty.Ledger = memledger.Open(&memledger.Options{Now: clock.Now})
				spend(o.process(), 1)
			} else {
				spend(behind, 100)
			}
		}
		spend(back, 100)
		if sent != 100 {
			t.Errorf("lost %v: %d calls; want 100", lost, sent)
		}
	}
}

// TestOutageOutlastsAWindow: a window of which nothing is known any more was
// not limited at all.
func TestOutageOutlastsAWindow(t *testing.T) {
	for name, window := range map[string]quota.Window{"sliding": quota.Sliding(time.Minute), "counter": quota.Counter(time.Minute)} {
		for _, wait := range []time.Duration{30 * time.Second, 2 * time.Minute} {
			clock := &ledgertest.Clock{}
			clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
			inner := failing(nil)
			inner.Ledger = memledger.Open(&memledger.Options{Now: clock.Now})
			budgets := []quota.Budget{{Account: account, Name: "minute", Limit: 10, Window: window}, {Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)}}
			l := journal.New(inner, t.TempDir(), &journal.Options{Budgets: budgets, Now: clock.Now, Allow: func(quota.Call) quota.Units { return 80 }})
			g, err := quota.NewGuard(l, budgets, nil)
			must(t, err)
			before, err := calls(g, 5)
			must(t, err)
			inner.fail(errDown)
			clock.Add(wait)
			within, _ := calls(g, 200)
			if wait < time.Minute {
				within += before
			}
			if within != 10 {
				t.Errorf("%s, %s later: %d calls in a minute; want 10", name, wait, within)
			}
		}
	}
}
