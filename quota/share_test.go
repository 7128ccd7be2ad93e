package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestARunTakesItsShareOfWhatIsLeft: a Guard with MaxShare takes no more than
// that part of what it found, gets back what it settles or refunds, and leaves
// the next run a share of the rest.
func TestARunTakesItsShareOfWhatIsLeft(t *testing.T) {
	ledger := memledger.Open(nil)
	budgets := []quota.Budget{
		{Account: "a", Name: "day", Limit: 1100, Window: quota.Sliding(24 * time.Hour)},
		{Account: "a", Name: "minute", Limit: 500, Window: quota.Sliding(time.Minute)},
	}
	run := func(share float64) *quota.Guard {
		guard, err := quota.NewGuard(ledger, budgets, &quota.Options{MaxShare: share})
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	ctx, call := t.Context(), quota.Call{Account: "a", Method: "get", Units: 50}
	spend := func(guard *quota.Guard) (grants []*quota.Grant, refused *quota.RefusedError) {
		for len(grants) < 100 {
			grant, err := guard.Wait(ctx, call, time.Hour)
			if err != nil {
				refused, _ = errors.AsType[*quota.RefusedError](err)
				return grants, refused
			}
			grants = append(grants, grant)
		}
		return grants, nil
	}
	others := run(0)
	if _, err := others.SpendTogether(ctx, call, 2, 0); err != nil {
		t.Fatal(err)
	}
	first := run(0.2)
	grants, refused := spend(first)
	if len(grants) != 4 || refused == nil || refused.Reason != quota.ReasonShare || refused.Budget != "day" {
		t.Fatalf("%d calls, then %v; want a fifth of 1,000", len(grants), refused)
	}
	want := "this run has 0 left of its share of day (20%, 200 units), get needs 50; " +
		"the next run may take as large a share of what is left then"
	if refused.Error() != want {
		t.Errorf("%v; want %s", refused, want)
	}
	if _, err := first.SpendTogether(ctx, call, 2, time.Minute); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want calls together refused too", err)
	}
	if err := errors.Join(grants[0].Refund(ctx), grants[1].Settle(ctx, 25)); err != nil {
		t.Fatal(err)
	}
	if again, _ := spend(first); len(again) != 1 {
		t.Errorf("%d more calls after 75 units came back; want one", len(again))
	}
	if grants, _ := spend(run(0.2)); len(grants) != 3 {
		t.Errorf("%d calls of the next run; want a fifth of the 825 that are left", len(grants))
	}
}

// TestARunOfASpentBudgetIsRefusedByIt: its share of nothing hid when units
// return, as if another run had room.
func TestARunOfASpentBudgetIsRefusedByIt(t *testing.T) {
	ledger := memledger.Open(nil)
	budgets := []quota.Budget{{Account: "a", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}}
	call := quota.Call{Account: "a", Method: "get", Units: 60}
	for _, share := range []float64{0, 0.5} {
		guard, err := quota.NewGuard(ledger, budgets, &quota.Options{MaxShare: share})
		if err != nil {
			t.Fatal(err)
		}
		_, err = guard.Spend(t.Context(), call)
		refused, _ := errors.AsType[*quota.RefusedError](err)
		if share > 0 && (refused == nil || refused.Reason != quota.ReasonSpent || refused.RetryAfter < 23*time.Hour) {
			t.Errorf("%v; want a refusal by day, until its units return", err)
		}
	}
}
