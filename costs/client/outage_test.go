package client

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// failingLedger is a ledger that is down while down is true.
type failingLedger struct {
	quota.Log
	down atomic.Bool
}

func (l *failingLedger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if l.down.Load() {
		return nil, fmt.Errorf("try again: %w", &unreachableError{})
	}
	return l.Log.Spend(ctx, batch)
}

func (l *failingLedger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	if l.down.Load() {
		return nil, fmt.Errorf("try again: %w", &unreachableError{})
	}
	return l.Log.Standings(ctx, account, key, charges)
}

// TestDeadLedgerInvisible: calls that were granted without the ledger used to
// be reported as if nothing had happened. An outage is reported when it begins,
// at its first granted call and when it ends; the mark in the state folder
// keeps its beginning for other processes, although the folder is new.
func TestDeadLedgerInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		var reports []string
		open := func() (*Client, *quota.Guard, *failingLedger) {
			return openFailing(t, dir, func(err error) { reports = append(reports, err.Error()) })
		}
		c, guard, inner := open()
		spend := func() {
			t.Helper()
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); err != nil {
				t.Fatal(err)
			}
		}
		reported := func(want ...string) {
			t.Helper()
			if len(reports) != len(want) || strings.Join(reports, "\n") != strings.Join(want, "\n") {
				t.Fatalf("it reports %q; want %q", reports, want)
			}
			reports = nil
		}
		down := func(since time.Time) string {
			return "the ledger redis://x has been down since " + human.Time(since) + ": redis at x: connection refused; calls go out within the allowance of when_ledger_down, and are recorded when it is back"
		}
		spend()
		began := time.Now().UTC().Truncate(time.Second)
		inner.down.Store(true)
		spend()
		reported(down(began), down(began))
		time.Sleep(time.Minute)
		spend()
		reported()
		if o := c.Outage(); !o.Down || o.Units != 6 || o.Total != 6 {
			t.Fatalf("%+v", o)
		}

		c, guard, other := open() // another process knows since when
		if o := c.Outage(); o == nil || !o.Since.Equal(began) {
			t.Fatalf("%+v; want what the first process found", o)
		}
		other.down.Store(true)
		spend()
		reported(down(began), down(began))
		other.down.Store(false)
		time.Sleep(time.Minute)
		spend()
		reported("the ledger redis://x is back after 2m; 3 units went out from here without it, now recorded")
		if LastOutage(dir) != nil {
			t.Error("the mark stays")
		}
		other.down.Store(true) // another outage
		spend()
		reported(down(began.Add(2*time.Minute)), down(began.Add(2*time.Minute)))
		if o := c.Outage(); o.Units != 3 || o.Total != 6 {
			t.Errorf("%+v; want 3 units of 6", o)
		}
	})
}

// TestEndOfAnOutageCountsWhatWasNotSent: what is said after an outage counts
// what was sent, and says nothing of units if none were.
func TestEndOfAnOutageCountsWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := ""
		c, guard, inner := openFailing(t, filepath.Join(t.TempDir(), "state"), func(err error) { said = err.Error() })
		for units, want := range []string{"the ledger redis://x is back after 1m", "the ledger redis://x is back after 1m; 1 unit went out from here without it, now recorded"} {
			inner.down.Store(true)
			if _, err := guard.Balances(t.Context()); err == nil {
				t.Error("the ledger that is down has balances")
			}
			for range units {
				guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1})
			}
			inner.down.Store(false)
			time.Sleep(time.Minute)
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); err != nil || said != want {
				t.Errorf("it says %q, %v; want %q", said, err, want)
			}
		}
		if text := NewLedgerState(c.Outage()).String(); !strings.HasSuffix(text, "; 1 unit went out without it, now recorded") {
			t.Errorf("after the outage: %s", text)
		}
	})
}

// TestOutageReportedOnce has many calls find the ledger down at once.
func TestOutageReportedOnce(t *testing.T) {
	var reports atomic.Int64
	o := &outages{ledger: "redis://x", mark: filepath.Join(t.TempDir(), outageFile), report: func(error) { reports.Add(1) }}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			o.failed(quota.ErrLedgerDown)
			o.granted(1)
		})
	}
	wg.Wait()
	if got := (&Client{outages: o}).Outage(); reports.Load() != 2 || got.Total != 8 {
		t.Errorf("%d reports, %+v; want its beginning and its first call", reports.Load(), got)
	}
}

// unreachableError is a quota.ErrLedgerDown whose text says what to do, like
// that of package redisledger.
type unreachableError struct{}

func (*unreachableError) Error() string {
	return "quota: ledger down: redis at x: connection refused; look after it"
}
func (*unreachableError) Short() string { return "redis at x: connection refused" }
func (*unreachableError) Unwrap() error { return quota.ErrLedgerDown }

// openFailing opens a client as a process would, over a ledger that can fail.
func openFailing(t *testing.T, dir string, report func(error)) (*Client, *quota.Guard, *failingLedger) {
	inner := &failingLedger{Log: ledgertest.Memory(nil)}
	c := &Client{outages: &outages{ledger: "redis://x", mark: filepath.Join(dir, outageFile), creates: true, report: report}}
	allowed := journal.New(newUnderJournal(inner, c.outages), dir+"-journal",
		&journal.Options{Allow: func(quota.Call) quota.Units { return 20 }, Granted: c.outages.granted})
	t.Cleanup(func() { allowed.Close() })
	c.journal, c.outages.owes = allowed, c.owes
	guard, err := quota.NewGuard(allowed, []quota.Budget{{Account: "p", Name: "b", Limit: 1000, Window: quota.Sliding(time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, guard, inner
}
