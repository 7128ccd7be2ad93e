package usage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestForcedReadingsOfCallsAndUnitsBothHold: a call that is removed for the
// calls takes its units with it, and the units end at their reading all the
// same.
func TestForcedReadingsOfCallsAndUnitsBothHold(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "calls", Measure: quota.Calls}, {Name: "all"}})
	for range 5 {
		if _, err := r.guard.Spend(t.Context(), quota.Call{Account: "p", Method: "x", Units: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.reconcile(true, map[string]quota.Units{"calls": 3, "all": 45}); err != nil {
		t.Error(err)
	}
	r.holds(map[string]quota.Units{"calls": 3, "all": 45})
}

// TestCallsTakeNoReconciledUnitsAway: a call that was removed for the calls
// took its units off a budget that had just been reconciled, which then granted
// them again.
func TestCallsTakeNoReconciledUnitsAway(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "calls", Measure: quota.Calls}, {Name: "all"}, {Name: "other", Methods: []string{"y"}}})
	for range 3 {
		if _, err := r.guard.Spend(t.Context(), quota.Call{Account: "p", Method: "x", Units: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.reconcile(false, map[string]quota.Units{"all": 40, "other": 0}); err != nil {
		t.Fatal(err)
	}
	err := r.reconcile(true, map[string]quota.Units{"calls": 1})
	if !rejected(err) || !strings.HasSuffix(err.Error(),
		" take their units off all, which was reconciled before; give the console's numbers for all of these "+
			"budgets: calls=1 all=N") {
		t.Errorf("%v; want a refusal", err)
	}
	r.holds(map[string]quota.Units{"calls": 3, "all": 40})
	if err := r.reconcile(true, map[string]quota.Units{"calls": 1, "all": 40}); err != nil {
		t.Error(err)
	}
	r.holds(map[string]quota.Units{"calls": 1, "all": 40, "other": 0})
}

// TestARaisedBudgetLowersNoOther: without force no budget is lowered, however
// much is added to another at the same time.
func TestARaisedBudgetLowersNoOther(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil), []quota.Budget{{Name: "search", Methods: []string{"search.list"}},
		{Name: "upload", Methods: []string{"videos.insert"}}})
	if err := r.reconcile(false, map[string]quota.Units{"search": 100, "upload": 100}); err != nil {
		t.Fatal(err)
	}
	console := map[string]quota.Units{"search": 50, "upload": 200}
	err := r.reconcile(false, console)
	if refused, ok := errors.AsType[*usage.RejectedError](err); !ok || !refused.NeedsForce ||
		!strings.Contains(err.Error(), "search has 100 of 9500 units used") {
		t.Errorf("%v; want a refusal without force", err)
	}
	r.holds(map[string]quota.Units{"search": 100, "upload": 100})
	if err := r.reconcile(true, console); err != nil {
		t.Error(err)
	}
	r.holds(console)
}

// TestANotedExcessIsSaidToBeNoted: what a restoration or the upstream's answers
// noted was taken for a console that lags, and the operator was told to wait.
func TestANotedExcessIsSaidToBeNoted(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "all"}, {Name: "search", Methods: []string{"search.list"}}})
	if _, err := r.guard.Spend(t.Context(), quota.Call{Account: "p", Method: "x", Units: 100}); err != nil {
		t.Fatal(err)
	}
	if err := r.guard.Note(t.Context(),
		quota.Note{Call: quota.Call{Account: "p", Method: "x", Units: 300}}); err != nil {
		t.Fatal(err)
	}
	const want = "all has 400 of 9500 units used, more than the 150 of the console; 300 of them are noted, by the " +
		"upstream's answers or a restoration, and that can be more than was spent"
	if err := r.reconcile(false, map[string]quota.Units{"all": 150}); err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	if err := r.reconcile(true, map[string]quota.Units{"all": 150}); err != nil {
		t.Error(err)
	}
	r.holds(map[string]quota.Units{"all": 150})
}
