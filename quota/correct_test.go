package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestCorrectionsExcludeEachOther: a correction waits for the end of another.
func TestCorrectionsExcludeEachOther(t *testing.T) {
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
		if err := other.Correct(t.Context(), account,
			func() error { t.Error("both at once"); return nil }); !errors.Is(err, quota.ErrCorrecting) {
			t.Errorf("the other: %v", err)
		}
		if err := other.Correct(t.Context(), "another account", func() error { ran++; return nil }); err != nil {
			t.Errorf("another account: %v", err)
		}
		clock.Add(11 * time.Second) // as if the holder had died
		return errors.Join(failed, other.Correct(t.Context(), account, func() error { ran++; return nil }))
	})
	if !errors.Is(err, failed) || errors.Is(err, quota.ErrCorrecting) || ran != 2 {
		t.Errorf("%v, and %d ran; want its own error, and 2", err, ran)
	}
	if err := other.Correct(t.Context(), account, func() error { ran++; return nil }); err != nil || ran != 3 ||
		used(t, one) != 0 {
		t.Errorf("after it: %v, %d ran, %d units; want 3, and none", err, ran, used(t, one))
	}
}

// TestACorrectionEndsACachedRefusal: a correction that returns units is
// followed by a grant, not by a refusal from before it.
func TestACorrectionEndsACachedRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		guard.Spend(t.Context(), call("m", 10))
		if _, err := guard.Spend(t.Context(), call("m", 1)); !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		err = guard.Correct(t.Context(), account, func() error {
			for entry, err := range guard.Entries(t.Context(), quota.Query{Account: account}) {
				if err = errors.Join(err,
					guard.SettleEntry(t.Context(), account, entry.ID, quota.Amounts{Units: 4, Calls: 1})); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
			t.Errorf("%v; want a grant, since 4 of 10 are used", err)
		}
	})
}
