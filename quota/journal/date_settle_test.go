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

// lateAnswers takes a millisecond or two to decide, as a network does, and
// loses the answers to restorations.
type lateAnswers struct {
	*faulty
	loses bool
	wait  time.Duration // until an answer of Standings arrives
}

func (l *lateAnswers) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	time.Sleep(time.Millisecond)
	return l.faulty.Spend(ctx, b)
}

func (l *lateAnswers) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	done, err := l.faulty.Restore(ctx, r)
	if l.loses {
		return quota.RestoreResult{}, errDown
	}
	return done, err
}

func (l *lateAnswers) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	time.Sleep(2 * time.Millisecond)
	standings, err := l.faulty.Standings(ctx, account, key, charges)
	time.Sleep(l.wait)
	return standings, err
}

// TestSettledAfterLostRestoration: the answer to a restoration is lost, and the
// next one dates the call of the outage otherwise. What it is settled to was
// lost, since the log has the first date.
func TestSettledAfterLostRestoration(t *testing.T) {
	type host struct {
		ahead time.Duration
		boot  uint64
		wait  time.Duration
	}
	for name, c := range map[string]struct {
		isNew             bool
		call, first, next host // at the call, and at the restorations
	}{
		"the clock is set for a while": {call: host{ahead: time.Second, boot: 1}, first: host{ahead: 4 * time.Minute, boot: 1}, next: host{ahead: time.Second, boot: 1}},
		"the ledger is slow":           {call: host{ahead: 800 * time.Millisecond, boot: 1}, first: host{ahead: 800 * time.Millisecond, boot: 1}, next: host{ahead: 800 * time.Millisecond, boot: 1, wait: 300 * time.Millisecond}},
		"the host starts anew":         {isNew: true, call: host{ahead: 10 * time.Minute, boot: 1}, first: host{boot: 1}, next: host{boot: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, now, began, dir := &lateAnswers{faulty: failing(nil)}, host{ahead: time.Second, boot: 1}, time.Now(), t.TempDir()
				inner.Ledger = memledger.Open(nil)
				o := hourly(20, 20, 1, &now.ahead)
				o.Uptime = func() (uint64, time.Duration) { return now.boot, time.Since(began) }
				process := func(h host) *journal.Ledger {
					time.Sleep(20 * time.Minute)
					now, inner.wait = h, h.wait
					l := journal.New(inner, dir, o)
					t.Cleanup(func() { _ = l.Close() })
					return l
				}
				if !c.isNew {
					_, err := spend(t.Context(), process(now), "k", 1)
					must(t, err)
				}
				inner.fail(errDown)
				receipt, err := spend(t.Context(), process(c.call), "m", 1)
				must(t, err)
				inner.fail(nil)
				inner.loses = true
				_, _ = spend(t.Context(), process(c.first), "n", 1)
				inner.loses = false
				l := process(c.next)
				_, err = spend(t.Context(), l, "n", 1)
				must(t, err)
				must(t, l.Settle(t.Context(), receipt, 5))
				holds(t, inner, "m", 5)
			})
		})
	}
}

// holds checks that each entry of a method has some units.
func holds(t *testing.T, l quota.Ledger, method string, want quota.Units) {
	t.Helper()
	found := 0
	for e, err := range l.Entries(t.Context(), quota.Query{Account: account}) {
		must(t, err)
		if e.Method != method {
			continue
		}
		found++
		if e.Units != want {
			t.Errorf("%+v; want %d units", e, want)
		}
	}
	if found == 0 {
		t.Errorf("no call of %s", method)
	}
}

// TestSettledBesideAnother: two hosts made a call in the same microsecond of an
// outage, so that the log keeps one of them later. What that was settled to was
// lost.
func TestSettledBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, ahead := failing(nil), time.Second
		inner.Ledger = memledger.Open(nil)
		o := hourly(100, 10, 1, &ahead)
		var hosts []*journal.Ledger
		each := func(method string) (receipts []quota.Receipt) {
			for _, l := range hosts {
				receipt, err := spend(t.Context(), l, method, 1)
				must(t, err)
				receipts = append(receipts, receipt)
			}
			return receipts
		}
		for range 2 {
			l := journal.New(inner, t.TempDir(), o)
			defer l.Close()
			hosts = append(hosts, l)
		}
		for _, l := range hosts {
			_, err := spend(t.Context(), l, "k", 1)
			must(t, err)
			time.Sleep(time.Second)
		}
		inner.fail(errDown)
		receipts := each("m")
		inner.fail(nil)
		time.Sleep(3 * time.Second)
		each("n")
		for i, l := range hosts {
			must(t, l.Settle(t.Context(), receipts[i], 5))
		}
		holds(t, inner, "m", 5)
	})
}

// TestOwnClockIsSetBack: a ledger that has its host's clock is back while that
// is set back by minutes. The calls of the outage were dated by it.
func TestOwnClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		inner, ahead := &lateAnswers{faulty: failing(nil)}, time.Duration(0)
		inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(ahead) }})
		o := hourly(20, 20, 1, &ahead)
		l := journal.New(inner, t.TempDir(), o)
		defer l.Close()
		guard, err := quota.NewGuard(l, o.Budgets, nil)
		must(t, err)
		_, err = calls(guard, 1)
		must(t, err)
		time.Sleep(10 * time.Minute)
		inner.fail(errDown)
		made := time.Now()
		granted, _ := calls(guard, 20)
		time.Sleep(10 * time.Minute)
		ahead = -6 * time.Minute
		inner.fail(nil)
		_, err = guard.Balances(t.Context())
		must(t, err)
		time.Sleep(time.Minute)
		ahead = 0
		time.Sleep(time.Until(made.Add(55 * time.Minute)))
		more, _ := calls(guard, 20)
		if granted+more > 20 {
			t.Errorf("%d and %d calls within 55 minutes; the limit of an hour is 20", granted, more)
		}
	})
}
