package feedback

import (
	"maps"
	"net/http"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// sortBudgets moves the budgets of errors and those of calls in flight out of
// those that cover the call: an answer is about them only if it says so.
func (a *answer) sortBudgets() {
	kept := a.covered[:0]
	for _, b := range a.covered {
		switch {
		case b.Measure == quota.Errors:
			a.ofErrors = append(a.ofErrors, b)
		case b.Window.Kind() == engine.InFlight:
			a.inFlight = append(a.inFlight, b)
		default:
			kept = append(kept, b)
		}
	}
	a.covered = kept
}

// countError counts the answer in the budgets of errors, if it is one and no
// rule has said so. It may count in no other budget.
func (a *answer) countError(v *quota.Verdict) {
	_, isSaid := v.Measures[quota.Errors]
	if isSaid || len(a.ofErrors) == 0 || a.status < http.StatusBadRequest {
		return
	}
	measures := maps.Clone(v.Measures)
	if measures == nil {
		measures = map[quota.Measure]quota.Units{}
	}
	measures[quota.Errors] = 1
	if v.Measures = measures; !v.Settled && !v.Free {
		v.Settled, v.Units = true, a.call.Units
	}
}
