package replica_test

import (
	"context"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestALookAtWhatIsKnownChangesNothing: a process that has not asked the ledger
// yet does not know its clock, and corrects none.
func TestALookAtWhatIsKnownChangesNothing(t *testing.T) {
	w := newWorld(t, t.TempDir(), 1, false, func(now func() time.Time) engine.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
	defer w.close()
	h := w.hosts[0]
	h.spend("list", 3)
	h.restart()
	used := func(look func(context.Context, func(*engine.View)) error) (units int64) {
		err := look(t.Context(), func(v *engine.View) { units = v.Held(w.budgets("list")[0], "").Used })
		if err != nil {
			t.Fatal(err)
		}
		return units
	}
	if err := h.engine.Account(accountCopy).Known(t.Context(), func(*engine.View) {}); err != nil {
		t.Fatal(err)
	}
	if units := used(h.engine.Account(accountCopy).View); units != 3 {
		t.Errorf("%d units are used after a look; want 3", units)
	}
}

// TestAnAcceptedLossIsRestoredByNoHost: neither by one that lives, nor from the
// copy of the host that accepts it, nor by one that was away.
func TestAnAcceptedLossIsRestoredByNoHost(t *testing.T) {
	w := newWorld(t, t.TempDir(), 3, false, func(now func() time.Time) engine.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
	defer w.close()
	for _, h := range w.hosts {
		h.spend("list", 3)
	}
	w.empty()
	w.now = w.now.Add(time.Second)
	accepting := engine.Labels{Method: "accept"}
	if err := w.hosts[0].engine.Account(accountCopy).AcceptLoss(t.Context(), accepting); err != nil {
		t.Fatal(err)
	}
	w.hosts[0].restart()
	w.hosts[2].restart()
	for _, h := range w.hosts {
		err := h.engine.Account(accountCopy).View(t.Context(), func(v *engine.View) {
			if used := v.Held(w.budgets("list")[0], "").Used; used != 0 {
				t.Errorf("%s: %d units are used; want none", h.name, used)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
