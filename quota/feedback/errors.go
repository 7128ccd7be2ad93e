package feedback

import (
	"maps"
	"net/http"

	"github.com/ration-dev/ration/quota"
)

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
