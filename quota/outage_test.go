package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/replica"
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

// newDownGuard returns a guard with an allowance of 500 units, and its ledger,
// which is down.
func newDownGuard(t *testing.T) (*quota.Guard, *downLedger) {
	host, err := replica.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ledger := &downLedger{Ledger: memledger.Open(nil)}
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 1000, 24*time.Hour)}, &quota.Options{
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
