//go:build unix

package sqliteledger_test

import (
	"errors"
	"testing"

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
