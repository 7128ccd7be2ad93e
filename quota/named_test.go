package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestNameOfAnotherDescriptionIsAnError: a name that stood for another call is
// an error and charges nothing, also after that was settled or refunded.
func TestNameOfAnotherDescriptionIsAnError(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard, other := openGuard(t, open), openGuard(t, open)
		one := call("search", 100)
		one.ID = quota.NameID("a name", "3 calls")
		grants, err := guard.SpendTogether(t.Context(), one, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := quota.Units(300)
		check := func(when string) {
			t.Helper()
			for n, what := range []string{"1 call", "2 calls", "", "4 calls"} {
				again := one
				again.ID = quota.NameID("a name", what)
				for _, g := range []*quota.Guard{guard, other} {
					if _, err := g.SpendTogether(t.Context(), again, n+1, 0); !errors.Is(err, quota.ErrReused) ||
						used(t, guard) != want {
						t.Errorf("%s, %q: %v, %d units; want an error and %d", when, what, err, used(t, guard), want)
					}
				}
			}
		}
		check("granted")
		err = grants[0].Settle(t.Context(), 5)
		want = 205
		check("settled")
		err = errors.Join(err, grants[0].Refund(t.Context()), grants[1].Refund(t.Context()))
		want = 100
		check("refunded")
		if err != nil {
			t.Error(err)
		}
		if again, err := other.SpendTogether(t.Context(), one, 3, 0); err != nil || len(again) != 3 ||
			used(t, guard) != 400 {
			t.Errorf("%v, %d units; want the calls anew, beside the one that was sent", err, used(t, guard))
		}
	})
}

// TestRefusalsOfOthersHideNoGrant: a call that was granted is granted again by
// its name while the same call without a name was just refused.
func TestRefusalsOfOthersHideNoGrant(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		named, plain := call("search", 600), call("search", 600)
		named.ID = quota.NameID("a name", "")
		for range 2 {
			if _, err := guard.Spend(t.Context(), named); err != nil || used(t, guard) != 600 {
				t.Errorf("%v, %d units; want the grant", err, used(t, guard))
			}
			if _, err := guard.Spend(t.Context(), plain); !errors.Is(err, quota.ErrRefused) {
				t.Errorf("%v; want a refusal", err)
			}
		}
	})
}

// TestAHangUpDoesNotInterruptASpend: a server's spend is decided although its
// client hangs up meanwhile; other spends are interrupted.
func TestAHangUpDoesNotInterruptASpend(t *testing.T) {
	server := quota.WithRequestOptions(t.Context(), func(t *quota.RequestOptions) { t.Uninterrupted = true })
	for _, count := range []int{1, 2} {
		for of, want := range map[context.Context]error{t.Context(): context.Canceled, server: nil} {
			ctx, hangUp := context.WithCancel(of)
			returned := make(chan struct{})
			ledger := testledger.Before(memledger.Open(nil), func(string) error {
				if hangUp(); want != nil {
					<-returned
				}
				return nil
			})
			guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, 24*time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := guard.SpendTogether(ctx, call("m", 1), count, 0); !errors.Is(err, want) {
				t.Errorf("%d calls: %v; want %v", count, err, want)
			}
			close(returned)
		}
	}
	ended, end := context.WithCancel(server)
	end()
	guard := newGuard(t, nil, budget("day", 10, 24*time.Hour))
	if _, err := guard.Spend(ended, call("m", 1)); !errors.Is(err, context.Canceled) || used(t, guard) > 0 {
		t.Errorf("%v, %d units; want nothing for a client that had gone before", err, used(t, guard))
	}
}
