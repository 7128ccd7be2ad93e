package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// downLedger is a ledger that cannot be reached while isDown is set.
type downLedger struct {
	quota.Ledger
	isDown bool
}

func (l *downLedger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if l.isDown {
		return nil, quota.ErrLedgerDown
	}
	return l.Ledger.Append(ctx, account, a)
}

func (l *downLedger) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	if l.isDown {
		return nil, quota.ErrLedgerDown
	}
	return l.Ledger.Read(ctx, account, r)
}

// newDownGuard returns a guard with an allowance of 500 units and a budget of
// 1000 a day after more, and its ledger, which is down.
func newDownGuard(t *testing.T, more ...quota.Budget) (*quota.Guard, *downLedger) {
	host, err := replica.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ledger := &downLedger{Ledger: memledger.Open(nil)}
	guard, err := quota.NewGuard(ledger, append(more, budget("day", 1000, 24*time.Hour)), &quota.Options{
		Replica: host, Allowance: &quota.Allowance{Limit: func(quota.Call) quota.Units { return 500 }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), call("search", 1)); err != nil {
		t.Fatal(err)
	}
	ledger.isDown = true
	return guard, ledger
}

// TestCallsTogetherInAnOutageAreGrantedAndSettledEach: all of them or none fit
// the allowance.
func TestCallsTogetherInAnOutageAreGrantedAndSettledEach(t *testing.T) {
	guard, _ := newDownGuard(t)
	if _, err := guard.SpendTogether(t.Context(), call("search", 100), 6, 0); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("600 units: %v; want that the ledger is down", err)
	}
	grants, err := guard.SpendTogether(t.Context(), call("search", 100), 3, 0)
	if err != nil || len(grants) != 3 {
		t.Fatalf("%d grants, %v; want 3", len(grants), err)
	}
	if err := errors.Join(grants[0].Settle(t.Context(), 150), grants[1].Refund(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := guard.SpendTogether(t.Context(), call("search", 100), 3, 0); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("300 units of the 200 that are left: %v; want that the ledger is down", err)
	}
}

// TestCallThatIsRepeatedInAnOutageIsChargedOnce: and one that was refunded is
// charged anew.
func TestCallThatIsRepeatedInAnOutageIsChargedOnce(t *testing.T) {
	guard, _ := newDownGuard(t)
	first, err := guard.Spend(t.Context(), named("a name", 300))
	if err != nil {
		t.Fatal(err)
	}
	again, err := guard.Spend(t.Context(), named("a name", 300))
	if err != nil || again.ID() != first.ID() {
		t.Fatalf("%v, grant %s; want %s", err, again.ID(), first.ID())
	}
	if err := again.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), named("a name", 300)); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want a call that is charged anew, beyond the allowance", err)
	}
	anew, err := guard.Spend(t.Context(), named("a name", 200))
	if err != nil || anew.ID() == first.ID() {
		t.Errorf("%v, grant %s; want another one than %s", err, anew.ID(), first.ID())
	}
}

// TestCallOfBeforeAnOutageIsRepeatedInItAsItCounts: one that counts is not
// charged again, and one that was refunded is charged anew.
func TestCallOfBeforeAnOutageIsRepeatedInItAsItCounts(t *testing.T) {
	guard, ledger := newDownGuard(t)
	ledger.isDown = false
	counts, err := guard.Spend(t.Context(), named("counts", 300))
	if err != nil {
		t.Fatal(err)
	}
	refunded, err := guard.Spend(t.Context(), named("refunded", 200))
	if err == nil {
		err = refunded.Refund(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.isDown = true
	again, err := guard.Spend(t.Context(), named("counts", 300))
	if err != nil || again.ID() != counts.ID() {
		t.Errorf("%v, grant %s; want %s", err, again.ID(), counts.ID())
	}
	for _, c := range []quota.Call{named("refunded", 200), call("search", 300)} { // all of the allowance
		if _, err := guard.Spend(t.Context(), c); err != nil {
			t.Errorf("%s: %v", c.Method, err)
		}
	}
	ledger.isDown = false
	if n := used(t, guard); n != 801 {
		t.Errorf("%d units are used; want 801: 1 and 300 of before, 200 and 300 of the outage", n)
	}
}

// TestCallsOfAnOutageAreInTheLedgerAfterIt: with what they were settled to.
func TestCallsOfAnOutageAreInTheLedgerAfterIt(t *testing.T) {
	guard, ledger := newDownGuard(t)
	grants, err := guard.SpendTogether(t.Context(), call("search", 100), 3, 0)
	if err == nil {
		err = errors.Join(grants[0].Settle(t.Context(), 150), grants[1].Refund(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.isDown = false
	if n := used(t, guard); n != 251 {
		t.Errorf("%d units; want 251: 1 of before, 150, 0 and 100", n)
	}
}

// TestASettleInAnOutageLeavesOtherMeasures as they were granted.
func TestASettleInAnOutageLeavesOtherMeasures(t *testing.T) {
	tokens := budget("tokens", 1000, 24*time.Hour)
	tokens.Measure = "tokens"
	guard, ledger := newDownGuard(t, tokens)
	chat := call("chat", 9)
	chat.Measures = map[quota.Measure]quota.Units{"tokens": 300}
	grant, err := guard.Spend(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	for _, units := range []quota.Units{7, 5} {
		if err := grant.Settle(t.Context(), units); err != nil {
			t.Fatal(err)
		}
	}
	ledger.isDown = false
	if _, err := guard.Balances(t.Context()); err != nil {
		t.Fatal(err)
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[0].Used != 300 || balances[1].Used != 6 {
		t.Errorf("%+v, %v; want 300 tokens and 6 units", balances, err)
	}
}

// TestABudgetOfErrorsThatIsFullRefusesInAnOutage although a call costs it
// nothing.
func TestABudgetOfErrorsThatIsFullRefusesInAnOutage(t *testing.T) {
	few := budget("few", 1, 24*time.Hour)
	few.Measure = quota.Errors
	guard, ledger := newDownGuard(t, few)
	ledger.isDown = false
	grant, err := guard.Spend(t.Context(), call("chat", 9))
	if err == nil {
		err = grant.SettleTo(t.Context(),
			quota.Amounts{Units: 9, Calls: 1, Named: map[quota.Measure]quota.Units{quota.Errors: 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.isDown = true
	if _, err := guard.Spend(t.Context(), call("chat", 9)); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("with no error left: %v; want that the ledger is down", err)
	}
}

// TestCallsOfAnOutageEndAndFail in it: those that had ended counted as in
// flight until the ledger was back, and errors not at all.
func TestCallsOfAnOutageEndAndFail(t *testing.T) {
	two := quota.Budget{Account: account, Name: "two", Limit: 2, Window: quota.InFlight(time.Minute),
		Measure: quota.Calls}
	few := budget("few", 1, 24*time.Hour)
	few.Measure = quota.Errors
	guard, ledger := newDownGuard(t, two, few)
	var grants []*quota.Grant
	spend := func(isGranted bool) {
		t.Helper()
		grant, err := guard.Spend(t.Context(), call("chat", 9))
		if isGranted == (err != nil) || err != nil && !errors.Is(err, quota.ErrLedgerDown) {
			t.Errorf("%v; granted: %t", err, isGranted)
		}
		if err == nil {
			grants = append(grants, grant)
		}
	}
	spend(true) // beside the one of before, which nothing ends
	spend(false)
	if err := grants[0].End(t.Context()); err != nil {
		t.Error(err)
	}
	spend(true)
	failed := quota.Amounts{Units: 9, Calls: 1, Named: map[quota.Measure]quota.Units{quota.Errors: 1}}
	if err := grants[1].SettleTo(t.Context(), failed); err != nil {
		t.Error(err)
	}
	spend(false)
	ledger.isDown = false
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[0].Used != 1 || balances[1].Used != 1 || balances[2].Used != 19 {
		t.Errorf("%+v, %v; want the calls, with what they cost, and none of them in flight", balances, err)
	}
}

// TestRefusalsOfAnOutageAreRemembered, so that a caller that tries again and
// again does not read the replica each time.
func TestRefusalsOfAnOutageAreRemembered(t *testing.T) {
	host, err := replica.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	ledger := &downLedger{Ledger: memledger.Open(nil)}
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 1000, time.Hour)}, &quota.Options{
		Replica: host, Allowance: &quota.Allowance{Limit: func(quota.Call) quota.Units { decided++; return 500 }}})
	if err == nil {
		err = guard.Cool(t.Context(), quota.Cooldown{Account: account, For: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.isDown = true
	for range 5 {
		if _, err := guard.Spend(t.Context(), call("search", 1)); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want the cooldown", err)
		}
	}
	if decided > 2 {
		t.Errorf("5 calls were decided %d times; want once a second", decided)
	}
}
