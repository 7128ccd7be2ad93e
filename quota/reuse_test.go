package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// TestRepeatedSpendIsChargedTwice: a call with the same ID is charged once,
// also by another process, after a settle, and when it was refused before.
func TestRepeatedSpendIsChargedTwice(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
		first, second := openGuard(t, open), openGuard(t, open)
		one := call("search", 400)
		one.ID = quota.NameID("a name", "")
		grant, err := first.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := second.Wait(t.Context(), one, time.Second)
		if err != nil || repeated.Token() != grant.Token() || used(t, second) != 400 {
			t.Fatalf("%v, %d units, tokens %s and %s; want the same grant", err, used(t, second), repeated.Token(), grant.Token())
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

// TestIDOfAnotherCallIsGranted: an ID that another call had is an error, and
// charges nothing.
func TestIDOfAnotherCallIsGranted(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
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

// TestRefundedCallIsRepeatedFree: a call that was refunded is charged anew
// under its ID, and then once.
func TestRefundedCallIsRepeatedFree(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
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
			if again, err := guard.SpendTogether(t.Context(), one, 1, 0); err != nil || again[0].Token() == grants[0].Token() || used(t, guard) != 100 {
				t.Fatalf("%v, %d units; want 100, by another grant", err, used(t, guard))
			}
		}
	})
}

// TestRefundedCallOfACounterIsRepeatedFree: so it is in a log without entries,
// and a call that was not refunded keeps its grant.
func TestRefundedCallOfACounterIsRepeatedFree(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
		guard := openGuard(t, open, counterOfADay)
		one := call("search", 100)
		one.ID = quota.NameID("a name", "")
		grants, err := guard.SpendTogether(t.Context(), one, 3, 0)
		if err == nil {
			err = grants[2].Refund(t.Context())
		}
		if err != nil || used(t, guard) != 200 {
			t.Fatalf("%v, %d units; want 200", err, used(t, guard))
		}
		for range 3 {
			again, err := guard.SpendTogether(t.Context(), one, 3, 0)
			if err != nil || used(t, guard) != 300 || again[0].ID() != grants[0].ID() || again[1].Token() != grants[1].Token() || again[2].Token() == grants[2].Token() {
				t.Fatalf("%v, %d units; want 300, and another grant for the one that was refunded", err, used(t, guard))
			}
		}
		if err := grants[2].Refund(t.Context()); err != nil || used(t, guard) != 300 {
			t.Errorf("refunded again: %v, %d units; want 300", err, used(t, guard))
		}
		if _, err := guard.SpendTogether(t.Context(), one, 3, 0); err != nil || used(t, guard) != 300 {
			t.Errorf("%v, %d units; want 300", err, used(t, guard))
		}
		if _, err := guard.Spend(t.Context(), call("search", 700)); err != nil {
			t.Fatal(err)
		}
		if err := grants[1].Refund(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call("search", 50)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the calls that are not refunded may have been sent
			if _, err := guard.SpendTogether(t.Context(), one, 3, 0); !errors.Is(err, quota.ErrRefused) || used(t, guard) != 950 {
				t.Errorf("%v, %d units; want a refusal, and 950", err, used(t, guard))
			}
		}
	})
}

// TestRepeatSaysOtherUnits: the grant of a repeated call counts for what was
// charged, although its price has changed since.
func TestRepeatSaysOtherUnits(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
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

// TestIDOfACallWithoutALabel: the id of a cheap call does not buy an expensive
// one, even if the method of the cheap one is "other", or Redis has lost its
// label.
func TestIDOfACallWithoutALabel(t *testing.T) {
	list := quota.Call{Account: "my-project", Method: quota.OtherMethod, Units: 1, ID: quota.ID{Client: quota.NewClient(), Seq: 1}}
	insert := list
	insert.Method, insert.Units = "insert", 1600
	server := redistest.Start(t)
	shared, err := ledgertest.Redis(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ledger quota.Log
		lose   func()
	}{
		"memory":           {ledgertest.Memory(nil), func() {}},
		"Redis":            {shared, func() {}},
		"Redis that loses": {shared, func() { server.Do(t, "del", "ration:{my-project}:meta") }},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := quota.NewGuard(test.ledger, []quota.Budget{budget("day", 10_000, 24*time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := guard.Spend(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			test.lose()
			if _, err := guard.Spend(t.Context(), insert); !errors.Is(err, quota.ErrReused) {
				t.Errorf("another call by the id: %v; want ErrReused", err)
			}
			if _, err := guard.Spend(t.Context(), list); err != nil {
				t.Errorf("the call again: %v", err)
			}
			if n := used(t, guard); n != 1 {
				t.Errorf("%d units are used; want 1", n)
			}
		})
	}
}
