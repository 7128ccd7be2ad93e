package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

const otherLedger = "redis://there:6379/0"

// closedGuard returns a guard of an account that is closed.
func closedGuard(t *testing.T, move quota.MovedError) *quota.Guard {
	t.Helper()
	ledger := memledger.Open(nil)
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := testledger.CloseAccount(t.Context(), ledger, move); err != nil {
		t.Fatal(err)
	}
	return guard
}

// isLeft reports whether an error names the ledger in which the account is.
func isLeft(err error) bool {
	moved, ok := errors.AsType[*quota.MovedError](err)
	return ok && *moved == quota.MovedError{Account: account, Ledger: otherLedger} &&
		errors.Is(err, quota.ErrLedgerConfig)
}

// checkMove checks what is read of a closed account.
func checkMove(t *testing.T, guard *quota.Guard, want quota.MovedError) {
	t.Helper()
	if moved, err := guard.Moved(t.Context(), account); err != nil || moved == nil || *moved != want {
		t.Errorf("%+v, %v; want %+v", moved, err, want)
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || *balances[0].Moved != want || balances[0].Cooldown != nil {
		t.Errorf("%+v, %v; want that it is closed, and no cooldown", balances, err)
	}
	refusals, err := guard.ProbeAll(t.Context(), call("m", 1))
	if err != nil || len(refusals) != 1 {
		t.Fatalf("%v, %v; want one refusal", refusals, err)
	}
	if moved := refusals[0].Moved(); moved == nil || *moved != want {
		t.Errorf("refused by %+v; want %+v", moved, want)
	}
}

func TestAnAccountThatHasLeftNamesItsLedger(t *testing.T) {
	move := quota.MovedError{Account: account, Ledger: otherLedger}
	guard := closedGuard(t, move)
	if _, err := guard.Spend(t.Context(), call("m", 1)); !isLeft(err) {
		t.Errorf("spend: %v; want the new ledger", err)
	}
	if _, err := guard.Wait(t.Context(), call("m", 1), time.Hour); !isLeft(err) {
		t.Errorf("wait: %v; want the new ledger", err)
	}
	if err := guard.Probe(t.Context(), call("m", 1)); !isLeft(err) {
		t.Errorf("probe: %v; want the new ledger", err)
	}
	checkMove(t, guard, move)
}

func TestAnArrivingAccountRefusesForAMoment(t *testing.T) {
	move := quota.MovedError{Account: account, Ledger: otherLedger, Arriving: true}
	guard := closedGuard(t, move)
	_, err := guard.Spend(t.Context(), call("m", 1))
	for _, err := range []error{err, guard.Probe(t.Context(), call("m", 1))} {
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || refused.Reason != quota.ReasonCooldown || refused.Budget != "" || refused.Limit != 0 {
			t.Fatalf("%+v; want a refusal like that of an account's cooldown", err)
		}
		if refused.Detail != "copied from "+otherLedger || refused.RetryAfter != 5*time.Second {
			t.Errorf("%q, try again in %s; want the old ledger, and 5 seconds", refused.Detail, refused.RetryAfter)
		}
		if got := refused.Moved(); got == nil || *got != move {
			t.Errorf("refused by %+v; want %+v", got, move)
		}
	}
	checkMove(t, guard, move)
}

// TestACallWaitsUntilItsAccountHasArrived: the copy opens the account while it
// waits.
func TestACallWaitsUntilItsAccountHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := closedGuard(t, quota.MovedError{Account: account, Ledger: otherLedger, Arriving: true})
		time.AfterFunc(6*time.Second, func() {
			if err := guard.Reopen(t.Context(), account); err != nil {
				t.Error(err)
			}
		})
		if _, err := guard.Wait(t.Context(), call("m", 1), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestReopenPutsTheAccountBackAsItWas(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		guard := closedGuard(t, quota.MovedError{Account: account, Ledger: otherLedger, Arriving: arriving})
		if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, Budget: "day", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := guard.Reopen(t.Context(), account); err != nil {
				t.Fatal(err)
			}
		}
		if moved, err := guard.Moved(t.Context(), account); moved != nil || err != nil {
			t.Errorf("closed by %v, %v; want open", moved, err)
		}
		refused, ok := errors.AsType[*quota.RefusedError](guard.Probe(t.Context(), call("m", 1)))
		if !ok || refused.Budget != "day" {
			t.Errorf("%+v; want the cooldown of before", refused)
		}
		if err := guard.ClearCooldown(t.Context(), account, "day"); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
			t.Error(err)
		}
	}
}
