package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// paused is a ledger in which something happens before the second spend.
type paused struct {
	quota.Log
	spends int
	before func()
}

func (p *paused) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	if p.spends++; p.spends == 2 {
		p.before()
	}
	return p.Log.Spend(ctx, b)
}

// TestTogetherTwiceAtOnce: calls together are repeated with their key while the
// first request is decided. That one is refused, and refunds its first call,
// which the other had been granted already: two calls were sent for the units
// of one.
func TestTogetherTwiceAtOnce(t *testing.T) {
	ledger := ledgertest.Memory(nil)
	guardOf := func(l quota.Log) *quota.Guard {
		guard, err := quota.NewGuard(l, []quota.Budget{{Account: "p", Name: "b", Limit: 2, Window: quota.Sliding(time.Hour)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	other := guardOf(ledger)
	var room *quota.Grant // that a third caller has for a moment
	firstAsked, againAsked, firstRefused := make(chan bool), make(chan bool), make(chan bool)
	first := guardOf(&paused{Log: ledger, before: func() {
		close(firstAsked)
		<-againAsked
		var err error
		if room, err = other.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1}); err != nil {
			t.Error(err)
		}
	}})
	again := guardOf(&paused{Log: ledger, before: func() {
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
