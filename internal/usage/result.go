package usage

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// MarshalJSON implements json.Marshaler. It names the budget in place of its
// whole balance.
func (r Correction) MarshalJSON() ([]byte, error) {
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
	}{b.Budget.Account, b.Budget.Name, b.Budget.Measure.String(), b.Limit(), r.Before, b.Used, b.Remaining, r.Entered,
		r.Lowered, r.Also})
}

// Describe says in one line what was done to the budget.
func (r *Correction) Describe() string {
	b := &r.Balance
	name, number := human.Name(b.Budget.Name), b.Budget.Measure.Number
	before := b.Budget.Measure.Text(r.Before)
	lowered := number(r.Lowered) + " were"
	if r.Lowered == 1 {
		lowered = "1 was"
	}
	left := fmt.Sprintf("; it has %s of %s used, %s left", number(b.Used), number(b.Limit()), number(b.Remaining))
	switch {
	case r.Entered > 0:
		also := ""
		if len(r.Also) > 0 {
			also = "; they count for " + human.Name(strings.Join(r.Also, ", ")) + " too"
		}
		entered := number(r.Entered) + " were missing and are entered"
		if r.Entered == 1 {
			entered = "1 was missing and is entered"
		}
		return fmt.Sprintf("%s had %s: %s%s%s", name, before, entered, left, also)
	case r.Lowered > 0 && r.Lowered < r.Before-r.Target:
		return fmt.Sprintf("%s had %s: %s taken off, and the rest is older than %d entries and stays%s", name, before,
			lowered, maxEntries, left)
	case r.Lowered > 0:
		return fmt.Sprintf("%s had %s: %s taken off%s", name, before, lowered, left)
	case r.Target < r.Before:
		return fmt.Sprintf("%s had %s: none could be taken off, they are older than %d entries%s", name, before,
			maxEntries, left)
	}
	return fmt.Sprintf("%s agrees: %s%s", name, before, left)
}
