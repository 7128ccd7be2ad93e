//go:build unix

package sqliteledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestCrowdIsBusyNotDown: others take turns for longer than a spend waits. The
// ledger is busy then, not down, so no allowance applies. The next spend after
// them is granted.
func TestCrowdIsBusyNotDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for a crowd")
	}
	t.Parallel()
	path := fresh(t)
	l := open(t, path, nil)
	spend(t, l, 5, shared)
	stop, err := open(t, path, nil).KeepBusy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Spend(t.Context(), one(1, shared)); !errors.Is(err, quota.ErrLedgerBusy) || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	stop()
	spend(t, l, 1, shared)
	if n := used(t, l, shared); n != 6 {
		t.Errorf("%d used; want 5 and 1", n)
	}
}

// TestNamedCallerLeaves: a call with an id whose context ended waited for up to
// ten seconds. It returns at once; its batch goes on, and repeating it by its
// id charges it once.
func TestNamedCallerLeaves(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	spend(t, l, 1, shared)
	stop, err := open(t, path, nil).KeepBusy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch := one(5, shared)
	batch.Client, batch.Seq, batch.Once = quota.NewClient(), 1, true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = l.Spend(ctx, batch)
	stop()
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want the caller's deadline, and that the call is in doubt", err)
	}
	if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
		t.Errorf("repeated: %v, %v", answers, err)
	}
	if n := used(t, l, shared); n != 6 {
		t.Errorf("%d used; want 1 and 5", n)
	}
}

// TestCallerLeavesBeforeItsTurn: a call whose caller left while others used the
// file was granted and then refunded, which in a crowd came too late.
func TestCallerLeavesBeforeItsTurn(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	spend(t, l, 1, shared)
	stop, err := open(t, path, nil).KeepBusy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Spend(ctx, one(5, shared)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the caller's deadline", err)
	}
	stop()
	spend(t, l, 2, shared)
	var units []quota.Units
	for e, err := range l.Entries(t.Context(), quota.Query{Account: "my-project"}) {
		if err != nil {
			t.Fatal(err)
		}
		units = append(units, e.Units)
	}
	if !slices.Equal(units, []quota.Units{1, 2}) {
		t.Errorf("the log has entries of %v units; want 1 and 2", units)
	}
}
