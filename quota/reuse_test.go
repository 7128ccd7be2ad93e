package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestRepeatedSpendIsChargedOnce: a call with the same ID is charged once,
// also by another process, after a settle, and when it was refused before.
func TestRepeatedSpendIsChargedOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		first, second := openGuard(t, open), openGuard(t, open)
		one := call("search", 400)
		one.ID = quota.NameID("a name", "")
		grant, err := first.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := second.Wait(t.Context(), one, time.Second)
		if err != nil || repeated.Token() != grant.Token() || used(t, second) != 400 {
			t.Fatalf("%v, %d units, tokens %s and %s; want the same grant", err, used(t, second), repeated.Token(),
				grant.Token())
		}
		if err := repeated.Settle(t.Context(), 900); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Spend(t.Context(), one); err != nil || used(t, first) != 900 {
			t.Errorf("%v, %d units; want the grant, and what it was settled to", err, used(t, first))
		}
		other := call("search", 200)
		other.ID = quota.NameID("another name", "")
		if _, err := first.Spend(t.Context(), other); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
		if err := grant.Settle(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := first.Spend(t.Context(), other); err != nil || used(t, first) != 300 {
				t.Errorf("after the refusal: %v, %d units; want 300", err, used(t, first))
			}
		}
	})
}

// TestIDOfAnotherCallIsAnError: an ID that another call had is an error, and
// charges nothing.
func TestIDOfAnotherCallIsAnError(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		one := call("search", 100)
		one.ID = quota.NameID("a name", "")
		if _, err := guard.Spend(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		one.Method = "videos"
		grant, err := guard.Spend(t.Context(), one)
		if !errors.Is(err, quota.ErrReused) || grant != nil || used(t, guard) != 100 {
			t.Errorf("%v, %v, %d units; want an error and 100", grant, err, used(t, guard))
		}
	})
}

// TestRefundedCallIsChargedAnew: a call that was refunded is charged anew
// under its ID, and then once.
func TestRefundedCallIsChargedAnew(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		one := call("search", 100)
		one.ID = quota.NameID("a name", "")
		grants, err := guard.SpendTogether(t.Context(), one, 1, 0)
		if err == nil {
			err = grants[0].Refund(t.Context())
		}
		if err != nil || used(t, guard) != 0 {
			t.Fatalf("%v, %d units", err, used(t, guard))
		}
		for range 3 {
			if again, err := guard.SpendTogether(t.Context(), one, 1, 0); err != nil ||
				again[0].Token() == grants[0].Token() || used(t, guard) != 100 {
				t.Fatalf("%v, %d units; want 100, by another grant", err, used(t, guard))
			}
		}
	})
}

// TestRepeatCountsWhatWasCharged: the grant of a repeated call counts for what
// was charged, although its price has changed since.
func TestRepeatCountsWhatWasCharged(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		one := call("search", 100)
		one.ID = quota.NameID("a name", "")
		first, err := guard.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		one.Units = 700
		again, err := guard.Spend(t.Context(), one)
		if err != nil || again.Call().Units != 100 || again.Token() != first.Token() || used(t, guard) != 100 {
			t.Errorf("%v, a grant of %d units, %d used; want 100", err, again.Call().Units, used(t, guard))
		}
	})
}

// TestIDIsRememberedForTenMinutes: the log of an account with a window of a
// minute keeps the grant that long.
func TestIDIsRememberedForTenMinutes(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("minute", 1000, time.Minute)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := guard.Spend(t.Context(), named("a name", 1))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 * 60 / 5 {
		clock.Add(5 * time.Second)
		if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := guard.Spend(t.Context(), named("a name", 1)); err != nil || again.Token() != grant.Token() {
		t.Errorf("%v, grant %s; want %s", err, again.ID(), grant.ID())
	}
}
