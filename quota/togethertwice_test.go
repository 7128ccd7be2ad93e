package quota_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// paused is a ledger in which something happens before the second spend.
type paused struct {
	quota.Ledger
	spends int
	before func()
}

func (p *paused) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	if p.spends++; p.spends == 2 {
		p.before()
	}
	return p.Ledger.Spend(ctx, b)
}

// TestTogetherTwiceAtOnce: calls together are repeated with their key while the
// first request is decided. That one is refused, and refunds its first call,
// which the other had been granted already: two calls were sent for the units
// of one.
func TestTogetherTwiceAtOnce(t *testing.T) {
	ledger := memledger.Open(nil)
	guardOf := func(l quota.Ledger) *quota.Guard {
		guard, err := quota.NewGuard(l, []quota.Budget{{Account: "p", Name: "b", Limit: 2, Window: quota.Sliding(time.Hour)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	other := guardOf(ledger)
	var room *quota.Grant // that a third caller has for a moment
	firstAsked, againAsked, firstRefused := make(chan bool), make(chan bool), make(chan bool)
	first := guardOf(&paused{Ledger: ledger, before: func() {
		close(firstAsked)
		<-againAsked
		var err error
		if room, err = other.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1}); err != nil {
			t.Error(err)
		}
	}})
	again := guardOf(&paused{Ledger: ledger, before: func() {
		close(againAsked)
		<-firstRefused
		if err := room.Refund(t.Context()); err != nil {
			t.Error(err)
		}
	}})
	both := quota.Call{Account: "p", Method: "m", Units: 1, ID: quota.NameID("key", "2 of m")}
	go func() {
		defer close(firstRefused)
		if _, err := first.SpendTogether(t.Context(), both, 2, 0); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%v; want a refusal", err)
		}
	}()
	<-firstAsked
	grants, err := again.SpendTogether(t.Context(), both, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	balances, err := other.Balances(t.Context())
	if err != nil || int(balances[0].Used) != len(grants) {
		t.Errorf("%d calls were granted, and %d are charged, %v", len(grants), balances[0].Used, err)
	}
}

// taken returns a guard whose second spend finds that another caller has taken
// 500 of the 1000 units, and a guard that shows what is used.
func taken(t *testing.T, open func() (quota.Ledger, error)) (guard, other *quota.Guard) {
	t.Helper()
	other = openGuard(t, open)
	ledger, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ledger.Close() })
	guard, err = quota.NewGuard(&paused{Ledger: ledger, before: func() {
		if _, err := other.Spend(t.Context(), call("m", 500)); err != nil {
			t.Error(err)
		}
	}}, other.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard, other
}

// TestTogetherStaysCharged: many calls together are charged in part, since
// another caller took room meanwhile. The ledger refunds only the newest of
// them, and not even these were refunded, since the oldest came first.
func TestTogetherStaysCharged(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard, other := taken(t, open)
		_, err := guard.SpendTogether(t.Context(), call("m", 1), 900, 0)
		if !errors.Is(err, quota.ErrRefused) || !errors.Is(err, quota.ErrStays) {
			t.Errorf("%v; want a refusal, and that some stay charged", err)
		}
		if stay := quota.Units(500 - quota.MaxSettle - 1); used(t, other) != 500+stay {
			t.Errorf("%d units are used; want 500, and %d of the calls together", used(t, other), stay)
		}
	})
}

// TestTogetherStaysChargedUnsaid: calls together that were charged in part and
// may wait were charged again, and that some stayed charged was not reported.
func TestTogetherStaysChargedUnsaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := taken(t, openMemory(t))
		if grants, err := guard.SpendTogether(t.Context(), call("m", 1), 900, 48*time.Hour); !errors.Is(err, quota.ErrStays) {
			t.Errorf("%d grants, %v; want that some stay charged", len(grants), err)
		}
	})
}
