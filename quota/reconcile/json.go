package reconcile

import (
	"encoding/json"

	"github.com/ration-dev/ration/quota"
)

// MarshalJSON implements json.Marshaler. It names the budget in place of its
// whole balance.
func (r Result) MarshalJSON() ([]byte, error) {
	b := &r.Balance
	return json.Marshal(struct {
		Account string      `json:"account"`
		Budget  string      `json:"budget"`
		Measure string      `json:"measure"`
		Limit   quota.Units `json:"limit"`
		Before  quota.Units `json:"used_before"`
		Used    quota.Units `json:"used"`
		Left    quota.Units `json:"remaining"`
		Entered quota.Units `json:"entered"`
		Lowered quota.Units `json:"lowered"`
		Also    []string    `json:"also_charged"`
	}{b.Budget.Account, b.Budget.Name, b.Budget.Measure.String(), b.Limit(), r.Before, b.Used, b.Remaining, r.Entered, r.Lowered, r.Also})
}
