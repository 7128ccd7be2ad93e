package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// store is a quota.Ledger, of whose parameters it does not know the types.
type store[A, R, T any] interface {
	Append(ctx context.Context, account string, a *A) (*T, error)
	Read(ctx context.Context, account string, r *R) (*T, error)
}

// failingStore is a store that is down while isDown is true.
type failingStore[A, R, T any] struct {
	quota.Ledger
	up     func() store[A, R, T]
	isDown *atomic.Bool
}

func (s *failingStore[A, R, T]) Append(ctx context.Context, account string, a *A) (*T, error) {
	if s.isDown.Load() {
		return nil, fmt.Errorf("try again: %w", &unreachableError{})
	}
	return s.up().Append(ctx, account, a)
}

func (s *failingStore[A, R, T]) Read(ctx context.Context, account string, r *R) (*T, error) {
	if s.isDown.Load() {
		return nil, fmt.Errorf("try again: %w", &unreachableError{})
	}
	return s.up().Read(ctx, account, r)
}

// failingLedger is a ledger that can be down, and be replaced by another one.
type failingLedger struct {
	quota.Ledger
	isDown atomic.Bool
	up     atomic.Pointer[memledger.Ledger]
}

func newFailingLedger(up *memledger.Ledger) *failingLedger {
	l := &failingLedger{}
	l.up.Store(up)
	l.Ledger = failing(up, l)
	return l
}

func failing[A, R, T any](up store[A, R, T], l *failingLedger) *failingStore[A, R, T] {
	return &failingStore[A, R, T]{Ledger: l.up.Load(), isDown: &l.isDown,
		up: func() store[A, R, T] { return any(l.up.Load()).(store[A, R, T]) }}
}

// down is what is said of an outage.
func down(since time.Time) string {
	return "the ledger opened has been down since " + human.Time(since) + ": redis at x: connection refused; " +
		"calls go out within the allowance of when_ledger_down, and are recorded when it is back"
}

// TestAnOutageIsReportedOnceAHost: an outage is reported when it begins, at
// its first granted call and when it ends; the mark in the state folder keeps
// its beginning for other processes, although the folder is new.
func TestAnOutageIsReportedOnceAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		var reports []string
		shared := memledger.Open(nil)
		open := func() (*Client, *quota.Guard, *failingLedger) {
			return openFailing(t, shared, dir, func(err error) {
				if _, ok := errors.AsType[*OutageError](err); ok {
					reports = append(reports, err.Error())
				}
			})
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
		spend()
		began := time.Now().UTC().Truncate(time.Second)
		inner.isDown.Store(true)
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
		other.isDown.Store(true)
		spend()
		reported(down(began), down(began))
		other.isDown.Store(false)
		time.Sleep(time.Minute)
		spend()
		reported("the ledger opened is back after 2m; 3 units went out from here without it, now recorded")
		if LastOutage(dir) != nil {
			t.Error("the mark stays")
		}
		other.isDown.Store(true) // another outage
		spend()
		reported(down(began.Add(2*time.Minute)), down(began.Add(2*time.Minute)))
		if o := c.Outage(); o.Units != 3 || o.Total != 6 {
			t.Errorf("%+v; want 3 units of 6", o)
		}
	})
}

// TestEndOfAnOutageCountsWhatWasSent: what is said after an outage counts what
// was sent, and says nothing of units if none were.
func TestEndOfAnOutageCountsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := ""
		c, guard, inner := openFailing(t, memledger.Open(nil), filepath.Join(t.TempDir(), "state"), func(err error) {
			if _, ok := errors.AsType[*OutageError](err); ok {
				said = err.Error()
			}
		})
		for units, want := range []string{"the ledger opened is back after 1m",
			"the ledger opened is back after 1m; 1 unit went out from here without it, now recorded"} {
			inner.isDown.Store(true)
			if _, err := guard.Balances(t.Context()); err == nil {
				t.Error("the ledger that is down has balances")
			}
			for range units {
				guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1})
			}
			inner.isDown.Store(false)
			time.Sleep(time.Minute)
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); err != nil ||
				said != want {
				t.Errorf("it says %q, %v; want %q", said, err, want)
			}
		}
		if text := NewLedgerState(c.Outage()).String(); !strings.HasSuffix(text,
			"; 1 unit went out without it, now recorded") {
			t.Errorf("after the outage: %s", text)
		}
	})
}

// TestManyCallsReportAnOutageOnce has many calls find the ledger down at once.
func TestManyCallsReportAnOutageOnce(t *testing.T) {
	var reports atomic.Int64
	o := &outages{ledger: "opened", mark: filepath.Join(t.TempDir(), outageFile),
		report: func(error) { reports.Add(1) }}
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
func openFailing(t *testing.T, ledger *memledger.Ledger, dir string, report func(error)) (*Client, *quota.Guard,
	*failingLedger) {
	t.Helper()
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: p\ncosts: {m: 3}\n"+
		"budgets: [{name: b, limit: 1000, window: 1h}]\nwhen_ledger_down: {default: {allow: 20}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	inner := newFailingLedger(ledger)
	c, err := New(table, &Options{Opened: inner, State: dir, Replica: dir + "-replica",
		Report: func(_ quota.Call, err error) { report(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, c.Guard(), inner
}
