package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// ReportResult is what a report did.
type ReportResult struct {
	Units    *quota.Units `json:"units"` // what the call is charged now; null if its grant is not known
	Amounts  Amounts      `json:"amounts,omitempty"`
	Cooldown *Cooldown    `json:"cooldown"`
	Left     *UnitsLeft   `json:"left"`
	Retry    bool         `json:"retry"`         // the same call may succeed
	After    *int64       `json:"retry_after_s"` // from now; null if the answer does not say
}

// Cooldown is one that a report has set, or a longer one that was in force.
type Cooldown struct {
	Account string  `json:"account"`
	Budget  *string `json:"budget"`        // null: the whole account
	Key     *string `json:"key,omitempty"` // none: all keys
	Reason  string  `json:"reason"`
	For     int64   `json:"for_s"` // from now
	// on the ledger's clock; another answer may have set it; null if that is not known
	Until *time.Time `json:"until"`
}

// UnitsLeft is what the upstream says is left of a budget.
type UnitsLeft struct {
	Budget string      `json:"budget"`
	Units  quota.Units `json:"units"`
}

// Describe says what a report did to a call of a method.
func (r *ReportResult) Describe(method string) string {
	var parts []string
	if r.Units != nil {
		charged := fmt.Sprintf("%s is charged %d", human.Name(method), *r.Units)
		for _, m := range slices.Sorted(maps.Keys(r.Amounts)) {
			charged += fmt.Sprintf(", %s %s", r.Amounts[m], m)
		}
		parts = append(parts, charged)
	}
	if r.Left != nil {
		parts = append(parts, fmt.Sprintf("the upstream has %d left of %s", r.Left.Units, human.Name(r.Left.Budget)))
	}
	if r.Cooldown != nil {
		parts = append(parts, r.Cooldown.String())
	}
	if r.Retry {
		parts = append(parts, "the call may be tried again")
	}
	if len(parts) == 0 {
		return "the answer says nothing about the quota"
	}
	return strings.Join(parts, "; ")
}

// Stop returns the cooldown if it lasts longer than a caller waits, so that its
// calls must stop, and otherwise nil.
func (r *ReportResult) Stop(maxWait time.Duration) *Cooldown {
	if c := r.Cooldown; c != nil && time.Duration(c.For)*time.Second > maxWait {
		return c
	}
	return nil
}

// String says what is in cooldown, why, and when to try again.
func (c *Cooldown) String() string {
	budget, length := human.Given(c.Budget), time.Duration(c.For)*time.Second
	text := fmt.Sprintf("%s is in cooldown (%s)", human.Scope(c.Account, budget, human.Given(c.Key)),
		human.Name(c.Reason))
	if c.Until == nil {
		return fmt.Sprintf("%s; try again in %s", text, human.Duration(length))
	}
	return fmt.Sprintf("%s; try again at %s (in %s)", text, human.Time(*c.Until), human.Duration(length))
}
