package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/textfmt"
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

// Describe says in one line what was done to the budget.
func (r *Result) Describe() string {
	b := &r.Balance
	name, measure := textfmt.Name(b.Budget.Name), b.Budget.Measure.String()
	left := fmt.Sprintf("; it has %d of %d used, %d left", b.Used, b.Limit(), b.Remaining)
	switch {
	case r.Entered > 0:
		also := ""
		if len(r.Also) > 0 {
			also = "; they count for " + textfmt.Name(strings.Join(r.Also, ", ")) + " too"
		}
		return fmt.Sprintf("%s had %d %s: %d were missing and are entered%s%s", name, r.Before, measure, r.Entered, left, also)
	case r.Lowered > 0 && r.Lowered < r.Before-r.Target:
		return fmt.Sprintf("%s had %d %s: %d were taken off, and the rest is older than %d entries and stays%s", name, r.Before, measure, r.Lowered, quota.MaxSettle, left)
	case r.Lowered > 0:
		return fmt.Sprintf("%s had %d %s: %d were taken off%s", name, r.Before, measure, r.Lowered, left)
	case r.Target < r.Before:
		return fmt.Sprintf("%s had %d %s: none could be taken off, they are older than %d entries%s", name, r.Before, measure, quota.MaxSettle, left)
	}
	return fmt.Sprintf("%s agrees: %d %s%s", name, r.Before, measure, left)
}
