package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// These tests restore calls of an outage while clocks are set.

// lateStandings takes a millisecond to answer, as a network does.
type lateStandings struct{ *faulty }

func (s lateStandings) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	time.Sleep(time.Millisecond)
	return s.faulty.Standings(ctx, account, key, charges)
}

// unwritable is a ledger that answers, but cannot be written.
type unwritable struct {
	*faulty
	not bool
}

func (u *unwritable) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	if u.not {
		return quota.RestoreResult{}, errDown
	}
	return u.faulty.Restore(ctx, r)
}

// hourly has one budget, and a host's clock that is ahead. A boot of 0 is a
// host that does not tell how long it runs.
func hourly(limit, allowed quota.Units, boot uint64, ahead *time.Duration) *journal.Options {
	o, began := allow(allowed), time.Now()
	o.Budgets = []quota.Budget{{Account: account, Name: "hour", Limit: limit, Window: quota.Sliding(time.Hour)}}
	o.Now = func() time.Time { return time.Now().Add(*ahead) }
	o.Uptime = func() (uint64, time.Duration) { return boot, time.Since(began) }
	return o
}

// TestTokenOfAnOutage: a call of an outage was dated a millisecond later than
// its receipt. Another host that settled it by its token did so in vain.
func TestTokenOfAnOutage(t *testing.T) {
	for _, boot := range []uint64{0, 1} {
		t.Run(fmt.Sprint(boot), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, began := failing(nil), time.Now()
				inner.Ledger = memledger.Open(nil)
				o := allow(10)
				o.Budgets, o.Now = budgets, func() time.Time { return time.Now().Add(time.Second) }
				o.Uptime = func() (uint64, time.Duration) { return boot, time.Since(began) }
				l := journal.New(lateStandings{inner}, t.TempDir(), o)
				defer l.Close()
				guard, err := quota.NewGuard(l, budgets, nil)
				must(t, err)
				call := quota.Call{Account: account, Method: "m", Units: 1}
				_, err = guard.Spend(t.Context(), call) // the host knows its clock
				must(t, err)
				time.Sleep(time.Second)
				inner.fail(errDown)
				g, err := guard.Spend(t.Context(), call)
				must(t, err)
				token := g.Token()
				inner.fail(nil)
				time.Sleep(time.Minute)
				_, err = guard.Spend(t.Context(), call) // restored
				must(t, err)
				other := journal.New(inner, t.TempDir(), o) // another host
				defer other.Close()
				guard2, err := quota.NewGuard(other, budgets, nil)
				must(t, err)
				again, err := guard2.Redeem(token)
				must(t, err)
				must(t, again.Settle(t.Context(), 5))
				var units quota.Units
				for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
					must(t, err)
					units += e.Units
				}
				if units != 7 {
					t.Errorf("boot %d: the ledger has %d units; want 1+5+1: the settle by another host was lost", boot, units)
				}
			})
		})
	}
}

// TestDatedCallIsSettled: a call of an outage is repeated by its id and settled
// after it may have been dated, and after the host's clock was set back over an
// hour.
func TestDatedCallIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour - 2*time.Minute) // 00:58
		inner, ahead, dir := &unwritable{failing(errDown), true}, 4*time.Minute, t.TempDir()
		inner.Ledger = memledger.Open(nil)
		o := hourly(20, 20, 1, &ahead)
		batch := &quota.Batch{Account: account, Client: 7, Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1}}}
		ask := func() quota.Receipt {
			l := journal.New(inner, dir, o)
			defer l.Close()
			answers, err := l.Spend(t.Context(), batch)
			must(t, err)
			must(t, answers[0].Err)
			return answers[0].Receipt
		}
		ask()
		inner.fail(nil)
		time.Sleep(time.Second)
		ask() // Standings are answered, and the call is dated; it cannot be restored
		ahead = 0
		l := journal.New(inner, dir, o)
		receipt := ask()
		must(t, l.Settle(t.Context(), receipt, 5))
		must(t, l.Close())
		inner.not = false
		time.Sleep(time.Second)
		l = journal.New(inner, dir, o)
		defer l.Close()
		_, err := spend(t.Context(), l, "n", 0) // restores
		t.Log(err)
		for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
			must(t, err)
			if e.Units != 5 {
				t.Errorf("%+v; want 5 units", e)
			}
		}
	})
}

// TestDatesAreRestamped: a call of an outage was dated by a ledger's clock
// ahead, in the file of an earlier hour. The log is restamped, and lost.
func TestDatesAreRestamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(11*time.Hour + 30*time.Minute)
		var jump time.Duration
		inner, ahead, dir := failing(nil), time.Hour, t.TempDir()
		open := func() {
			inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(jump) }})
		}
		open()
		o := hourly(20, 20, 1, &ahead)
		inner.fail(errDown)
		used := func(l *journal.Ledger) quota.Units {
			guard, err := quota.NewGuard(l, o.Budgets, nil)
			must(t, err)
			_, err = guard.Spend(t.Context(), quota.Call{Account: account, Method: "n", Units: 1})
			must(t, err)
			balances, err := guard.Balances(t.Context())
			must(t, err)
			return balances[0].Used
		}
		l := journal.New(inner, dir, o)
		_, err := spend(t.Context(), l, "m", 10)
		must(t, err)
		must(t, l.Close())
		ahead, jump = 0, 2*time.Hour
		inner.fail(nil)
		time.Sleep(3 * time.Second)
		l = journal.New(inner, dir, o)
		used(l)
		jump = 0
		time.Sleep(time.Second)
		_, err = l.Restamp(t.Context(), account, "")
		must(t, err)
		must(t, l.Close())
		time.Sleep(65 * time.Minute)
		open() // it has lost all
		l = journal.New(inner, dir, o)
		defer l.Close()
		if n := used(l); n != 1 {
			t.Errorf("%d used 65 minutes after a call of 10 units; want 1", n)
		}
	})
}

// TestOwnCallsCount: a host's clock that was set ahead by hours in an outage
// let its own calls leave the window.
func TestOwnCallsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, ahead := failing(nil), time.Second
		inner.Ledger = memledger.Open(nil)
		o := hourly(20, 100, 1, &ahead)
		inner.fail(errDown)
		l := journal.New(inner, t.TempDir(), o)
		defer l.Close()
		guard, err := quota.NewGuard(l, o.Budgets, nil)
		must(t, err)
		granted := 0
		for _, ahead = range []time.Duration{0, 2 * time.Hour, 4 * time.Hour} {
			for range 30 {
				if _, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "n", Units: 1}); err == nil {
					granted++
				}
			}
		}
		if granted != 20 {
			t.Errorf("%d calls at once; the limit of an hour is 20", granted)
		}
	})
}

// TestLedgerIsBackAnHourBehind: after an outage of 70 minutes the server's
// clock is an hour behind, as one in local time may be, and is corrected.
func TestLedgerIsBackAnHourBehind(t *testing.T) {
	for _, isRestored := range []bool{true, false} { // by the clock that is behind
		t.Run(fmt.Sprint(isRestored), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var jump time.Duration
				inner, ahead := &unwritable{failing(nil), !isRestored}, time.Second
				inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(jump) }})
				o := hourly(20, 20, 1, &ahead)
				o.Budgets[0].Window = quota.Sliding(2 * time.Hour)
				l := journal.New(inner, t.TempDir(), o)
				defer l.Close()
				guard, err := quota.NewGuard(l, o.Budgets, nil)
				must(t, err)
				call := quota.Call{Account: account, Method: "m", Units: 1}
				_, err = guard.Spend(t.Context(), call)
				must(t, err)
				time.Sleep(10 * time.Minute)
				inner.fail(errDown)
				for range 18 {
					_, err = guard.Spend(t.Context(), call)
					must(t, err)
				}
				made := time.Now()
				time.Sleep(70 * time.Minute)
				jump = -time.Hour
				inner.fail(nil)
				_, _ = guard.Balances(t.Context())
				time.Sleep(time.Minute)
				jump, inner.not = 0, false
				time.Sleep(5 * time.Minute)
				granted := 0
				for range 20 {
					if _, err := guard.Spend(t.Context(), call); err == nil {
						granted++
					}
				}
				if granted > 2 {
					t.Errorf("%d calls granted %s after 18; want 1 or 2 in two hours", granted, time.Since(made))
				}
			})
		})
	}
}

// TestLedgerIsBackAhead: the ledger is back with a clock that is 25 hours
// ahead, is refused, and corrected. The calls of the outage were dated by that
// clock, and by it the allowance opened again.
func TestLedgerIsBackAhead(t *testing.T) {
	for _, boot := range []uint64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var jump time.Duration
			inner, ahead := failing(nil), time.Second
			inner.Ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(jump) }})
			o := hourly(20, 10, boot, &ahead)
			l := journal.New(serverTime{inner}, t.TempDir(), o)
			defer l.Close()
			guard, err := quota.NewGuard(l, o.Budgets, nil)
			must(t, err)
			_, err = calls(guard, 1)
			must(t, err)
			inner.fail(errDown)
			granted, _ := calls(guard, 20)
			made := time.Now()
			time.Sleep(50 * time.Minute)
			inner.fail(nil)
			jump = 25 * time.Hour
			if _, err := calls(guard, 1); !errors.As(err, new(*quota.ClockError)) {
				t.Fatal(err)
			}
			inner.fail(errDown) // the server is started anew to correct its clock
			time.Sleep(time.Minute)
			_, _ = calls(guard, 1)
			time.Sleep(time.Minute)
			more, _ := calls(guard, 20)
			if granted += more; granted != 10 {
				t.Errorf("boot %d: %d calls within an allowance of 10", boot, granted)
			}
			inner.fail(nil)
			jump = 0
			time.Sleep(3 * time.Second)
			_, err = calls(guard, 1)
			must(t, err)
			for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
				must(t, err)
				if late := e.At.Sub(made); late > time.Second && late < 50*time.Minute {
					t.Errorf("boot %d: a call is dated %s late", boot, late)
				}
			}
		})
	}
}

// TestOutageIsReadAgain: the calls of an outage, in which the host's clock is
// set twice, are dated, one is settled, and the ledger loses its log. A process
// that reads all from the files has it restored as it was.
func TestOutageIsReadAgain(t *testing.T) {
	steps := []time.Duration{0, 4 * time.Minute, -4 * time.Minute, 70 * time.Minute, -70 * time.Minute, 26 * time.Hour, -26 * time.Hour}
	for n := range len(steps) * len(steps) * len(steps) {
		synctest.Test(t, func(t *testing.T) { readAgain(t, n%2 == 0, steps[n%7], steps[n/7%7], steps[n/49]) })
	}
}

func readAgain(t *testing.T, isKnown bool, first, second, third time.Duration) {
	time.Sleep(30*time.Hour + 58*time.Minute)
	inner, ahead, dir := failing(nil), first, t.TempDir()
	inner.Ledger = memledger.Open(nil)
	o := hourly(100, 50, 1, &ahead)
	o.Budgets[0].Window = quota.Sliding(24 * time.Hour)
	l := journal.New(inner, dir, o)
	charge := &quota.Charge{Budget: "hour", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 100, Window: o.Budgets[0].Window}
	made, want := map[quota.ID]time.Time{}, quota.Units(0)
	call := func() quota.Receipt {
		at := time.Now()
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 2, Charges: []*quota.Charge{charge}}}})
		must(t, err)
		must(t, answers[0].Err)
		made[answers[0].Receipt.ID] = at
		want += 2
		time.Sleep(time.Second)
		return answers[0].Receipt
	}
	settle := func(r quota.Receipt, units quota.Units) {
		must(t, l.Settle(t.Context(), r, units))
		want += units - 2
	}
	check := func(when string, most quota.Units) {
		var got quota.Units
		for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
			must(t, err)
			got += e.Units
			off := e.At.Sub(made[e.ID])
			if e.Kind != quota.EntryNote && (off < -20*time.Microsecond || off > 10*time.Second) {
				t.Errorf("%s: %+v is dated %s late; the clock was set to %s, %s, %s", when, e, off, first, second, third)
			}
		}
		if got < want || got > want+most {
			t.Errorf("%s: %d units; want %d; the clock was set to %s, %s, %s", when, got, want, first, second, third)
		}
	}
	if isKnown {
		call()
	}
	inner.fail(errDown)
	call()
	settle(call(), 3)
	ahead = second
	call()
	late := call()
	ahead = third
	inner.fail(nil)
	time.Sleep(3 * time.Second)
	call()
	settle(late, 7)
	check("restored", 0)
	must(t, l.Close())
	inner.Ledger = memledger.Open(nil)
	l = journal.New(inner, dir, o)
	defer l.Close()
	call()
	check("lost", 1) // a settlement that is read before its call counts as one of after the answer
}
