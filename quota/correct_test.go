package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestCorrectOneAtATime lets one correction wait for another's end.
func TestCorrectOneAtATime(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	open := func() *quota.Guard {
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 100, time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	one, other := open(), open()
	ran, failed := 0, errors.New("failed")
	err := one.Correct(t.Context(), account, func() error {
		if err := other.Correct(t.Context(), account, func() error { t.Error("both at once"); return nil }); !errors.Is(err, quota.ErrCorrecting) {
			t.Errorf("the other: %v", err)
		}
		if err := other.Correct(t.Context(), "another account", func() error { ran++; return nil }); err != nil {
			t.Errorf("another account: %v", err)
		}
		clock.Add(11 * time.Second) // as if it had died
		return errors.Join(failed, other.Correct(t.Context(), account, func() error { ran++; return nil }))
	})
	if !errors.Is(err, failed) || errors.Is(err, quota.ErrCorrecting) || ran != 2 {
		t.Errorf("%v, and %d ran; want its own error, and 2", err, ran)
	}
	if err := other.Correct(t.Context(), account, func() error { ran++; return nil }); err != nil || ran != 3 || used(t, one) != 0 {
		t.Errorf("after it: %v, %d ran, %d units; want 3, and none", err, ran, used(t, one))
	}
}
