package report

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Refuser is a budget that refuses calls, or has refused them.
type Refuser struct{ Account, Budget, Key string }

// GrantedAgain returns the budgets that refuse none of the calls any more that
// the logs have as refused, though they may have refused them: of those that a
// budget did refuse, nothing else refuses one now. It charges nothing.
func GrantedAgain(ctx context.Context, c *client.Client, statuses []usage.BudgetStatus) ([]Refuser, error) {
	calls, err := probe(ctx, c, statuses)
	if err != nil {
		return nil, err
	}
	var over []Refuser
	refuses, known := map[Refuser]bool{}, map[Refuser]bool{}
	for _, call := range calls {
		for _, refused := range call.by {
			refuses[call.refuser(refused.Budget, refused.OfKey)] = true
		}
		if len(call.by) > 0 || !call.fits {
			refuses[call.refuser(call.Budget, call.OfKey)] = true
		}
	}
	for _, call := range calls {
		for _, b := range call.budgets {
			for _, ofKey := range []bool{false, true} {
				one := call.refuser(b.Budget.Name, ofKey)
				isCovered := b.Coverage.Covers(call.Method, call.Caller.Lane, call.Caller.Region)
				if isCovered && !refuses[one] && !known[one] {
					known[one] = true
					over = append(over, one)
				}
			}
		}
	}
	return over, nil
}

// refuser returns who refuses the call.
func (r *refusedCall) refuser(budget string, ofKey bool) Refuser {
	one := Refuser{Account: r.call.Account, Budget: budget}
	if ofKey {
		one.Key = r.Key
	}
	return one
}

// Refuser returns who refuses the calls.
func (r *Refusal) Refuser() Refuser { return Refuser{r.Account, r.refused.Budget, keyAlone(r.refused)} }

// IsSpent reports whether a budget refuses the calls, and not a cooldown.
func (r *Refusal) IsSpent() bool { return r.Reason == string(quota.ReasonSpent) }
