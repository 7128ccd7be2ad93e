// Package testledger opens ledgers for tests, and reads them.
package testledger

import (
	"context"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Guard returns a guard without budgets on a ledger: to list what it has, and
// to record what no budget covers.
func Guard(t testing.TB, ledger quota.Ledger) *quota.Guard {
	t.Helper()
	guard, err := quota.NewGuard(ledger, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// Before returns a ledger that calls hook before each "append" and "read", and
// does neither if that returns an error.
func Before(ledger quota.Ledger, hook func(op string) error) quota.Ledger {
	return &hooked{ledger, hook}
}

type hooked struct {
	quota.Ledger
	hook func(op string) error
}

// RealTime says what the inner ledger says.
func (h *hooked) RealTime() bool { return engine.RealTime(h.Ledger) }

// Append implements quota.Ledger.
func (h *hooked) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	if err := h.hook("append"); err != nil {
		return nil, err
	}
	return h.Ledger.Append(ctx, account, a)
}

// Read implements quota.Ledger.
func (h *hooked) Read(ctx context.Context, account string, r *quota.Read) (*quota.Tail, error) {
	if err := h.hook("read"); err != nil {
		return nil, err
	}
	return h.Ledger.Read(ctx, account, r)
}

// Fill records calls of one account in one batch, whatever budgets say, for a
// ledger that keeps them for days.
func Fill(t testing.TB, ledger quota.Ledger, calls ...quota.Call) {
	t.Helper()
	requests := make([]*engine.Request, len(calls))
	for i, c := range calls {
		requests[i] = &engine.Request{Force: true, History: (72 * time.Hour).Microseconds(),
			Amounts: engine.Amounts{Units: int64(c.Units), Calls: 1},
			Labels: engine.Labels{Method: c.Method, Key: c.Key,
				Lane: c.Caller.Lane, Job: c.Caller.Job, Region: c.Caller.Region}}
	}
	account := engine.New(ledger, &engine.Options{TestClock: !engine.RealTime(ledger)}).Account(calls[0].Account)
	if _, err := account.Spend(context.Background(), requests...); err != nil {
		t.Fatal(err)
	}
}
