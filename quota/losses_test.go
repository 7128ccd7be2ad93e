package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// newHost returns a guard with an allowance of 500 units and a replica.
func newHost(t *testing.T, ledger quota.Ledger, folder string, budgets ...quota.Budget) *quota.Guard {
	t.Helper()
	host, err := replica.Open(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := quota.NewGuard(ledger, budgets, &quota.Options{
		Replica: host, Allowance: &quota.Allowance{Limit: func(quota.Call) quota.Units { return 500 }}})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// TestOutageOfEachAccountIsRecordedOnceItIsOver: also of one that was spent
// while the ledger was known to be down, without asking it.
func TestOutageOfEachAccountIsRecordedOnceItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &downLedger{Ledger: memledger.Open(nil)}
		other := quota.Budget{Account: "other", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}
		guard := newHost(t, ledger, t.TempDir(), budget("day", 1000, 24*time.Hour), other)
		second := quota.Call{Account: "other", Method: "search", Units: 60}
		for _, isDown := range []bool{false, true} {
			ledger.isDown = isDown
			for _, c := range []quota.Call{call("search", 1), second} {
				if second.Units = 60; !isDown {
					c.Units = 1
				}
				if _, err := guard.Spend(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
		ledger.isDown = false
		time.Sleep(3 * time.Second)
		if _, err := guard.Spend(t.Context(), second); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("121 of 100 units are granted: %v", err)
		}
	})
}

// TestAMovedAccountIsNotSpentInAnOutage: of the ledger that it has left.
func TestAMovedAccountIsNotSpentInAnOutage(t *testing.T) {
	guard, ledger := newDownGuard(t)
	ledger.isDown = false
	if err := testledger.CloseAccount(t.Context(), ledger,
		quota.MovedError{Account: account, Ledger: otherLedger}); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), call("search", 1)); !isLeft(err) {
		t.Fatal(err)
	}
	ledger.isDown = true
	if _, err := guard.Spend(t.Context(), call("search", 300)); !isLeft(err) {
		t.Errorf("%v; want that the account has moved", err)
	}
}

// TestASettledCallOfAnOutageCountsOnce: its settle does not count beside it.
func TestASettledCallOfAnOutageCountsOnce(t *testing.T) {
	ledger := &downLedger{Ledger: memledger.Open(nil)}
	guard := newHost(t, ledger, t.TempDir(), budget("day", 500, 24*time.Hour))
	if _, err := guard.Spend(t.Context(), call("search", 1)); err != nil {
		t.Fatal(err)
	}
	ledger.isDown = true
	grant, err := guard.Spend(t.Context(), call("search", 200))
	if err != nil {
		t.Fatal(err)
	}
	if err := grant.Settle(t.Context(), 210); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), call("search", 200)); err != nil {
		t.Errorf("200 of 289 that are left: %v", err)
	}
}

// TestAnAcceptedLossIsNotRestoredFirst: though another host has spent since.
func TestAnAcceptedLossIsNotRestoredFirst(t *testing.T) {
	folder, day := t.TempDir(), budget("day", 1000, 24*time.Hour)
	first := newHost(t, memledger.Open(nil), folder, day)
	if _, err := first.Spend(t.Context(), call("search", 400)); err != nil {
		t.Fatal(err)
	}
	emptied := memledger.Open(nil)
	another := newHost(t, emptied, t.TempDir(), day)
	if _, err := another.Spend(t.Context(), call("search", 5)); err != nil {
		t.Fatal(err)
	}
	if err := newHost(t, emptied, folder, day).AcceptLoss(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if n := used(t, another); n != 5 {
		t.Errorf("%d units are used after the loss was accepted; want 5", n)
	}
}

// TestALookAlikeCannotBeClaimed: its log would be made, and then spent.
func TestALookAlikeCannotBeClaimed(t *testing.T) {
	ledger := memledger.Open(nil)
	for i, name := range []string{"project", "Project"} {
		day := quota.Budget{Account: name, Name: "day", Limit: 10, Window: quota.Sliding(time.Hour)}
		guard, err := quota.NewGuard(ledger, []quota.Budget{day}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, claimed := guard.Account(name).Claim(t.Context(), engine.ClaimRequest{Name: "pass", Hold: time.Minute})
		_, spent := guard.Spend(t.Context(), quota.Call{Account: name, Method: "m", Units: 10})
		if isRefused := claimed != nil && spent != nil; isRefused != (i > 0) {
			t.Errorf("%s: %v, %v; want both refused for the second spelling", name, claimed, spent)
		}
	}
}
