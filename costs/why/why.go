// Package why explains a refusal: who had spent the budget, what would have had
// to be different, and whether the same call would be granted now.
package why

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// Explanation explains a refusal, for JSON.
type Explanation struct {
	At      time.Time       `json:"at"`
	Refusal *client.Refusal `json:"refusal"` // null: none is known
	Window  *string         `json:"window"`
	Since   *time.Time      `json:"since"` // the beginning of the window at the time of the refusal
	Held    quota.Units     `json:"held"`  // what the ledger still holds of that window
	usage.Attribution
	Short  quota.Units  `json:"short"`
	Limit  *quota.Units `json:"limit_needed"`
	Helped []string     `json:"would_have_helped"`
	Now    struct {
		Granted *bool   `json:"granted"` // null: not known
		Reason  *string `json:"reason"`
	} `json:"now"`

	Estimate bool `json:"-"` // Held is an upper bound
}

// New returns what follows from a refusal alone. refusal may be nil.
func New(refusal *client.Refusal, at time.Time) *Explanation {
	e := &Explanation{At: at.UTC(), Refusal: refusal, Attribution: usage.Attribution{}.NotNil(), Helped: []string{}}
	if refusal != nil {
		e.set(usage.NewExplanation(refusal.RefusedError()))
	}
	return e
}

// Ask adds what the ledger of c says: who had spent the window, and whether the
// same call would be granted now. It charges nothing.
func (e *Explanation) Ask(ctx context.Context, c *client.Client) error {
	at, _, err := c.Guard().Now(ctx, e.Refusal.Account)
	if err != nil {
		return err
	}
	e.At = at.UTC()
	if e.Refusal.Ledger != c.LedgerName() {
		e.Now.Reason = new("it was another ledger, " + e.Refusal.Ledger)
		return nil
	}
	found, err := usage.Explain(ctx, c.Guard(), e.Refusal.RefusedError(), e.Refusal.At)
	if err != nil {
		return err
	}
	e.set(found)
	return e.probe(ctx, c)
}

// set sets what was found, and what would have helped.
func (e *Explanation) set(found *usage.Explanation) {
	if found.Window != (quota.Window{}) {
		e.Window, e.Since, e.Estimate = new(found.Window.String()), human.Instant(found.Since), found.Window.Estimate()
	}
	e.Held, e.Attribution, e.Short, e.Helped = found.Held, found.Attribution.NotNil(), found.Short, nil
	r := e.Refusal
	later := fmt.Sprintf("a call %s later, at %s, if nobody had spent meanwhile", human.Duration(r.RetryAt.Sub(r.At)), human.Time(r.RetryAt))
	switch quota.Reason(r.Reason) {
	case quota.ReasonSpent:
		e.Limit = &found.LimitNeeded
		e.helped("a limit of %s or more for %s", human.Amount(*e.Limit, r.Measure), human.Name(*r.Budget))
		if found.Most.Units > 0 {
			e.helped("%s less spent before; %s had %d", human.Amount(e.Short, r.Measure), spenderText(&found.Most), found.Most.Units)
		}
		if found.FloorsMattered {
			e.helped("fewer than the %s that %s kept for the floors of other regions", human.Amount(r.Kept, r.Measure), human.Was(r.Kept))
		}
		e.helped("%s", later)
	case quota.ReasonCooldown:
		e.helped("%s", later)
		name := "--account " + r.Account
		if r.Budget != nil {
			name = *r.Budget
		}
		e.helped("lifting the cooldown, if the upstream serves again: ration cooldown clear %s", name)
	default:
		e.helped("no other call of the same process that waited for the same budget")
		e.helped("%s", later)
	}
}

func (e *Explanation) helped(format string, args ...any) {
	e.Helped = append(e.Helped, fmt.Sprintf(format, args...))
}

// spenderText names a spender: search.list for GB.
func spenderText(s *usage.Spender) string {
	if s.Region == usage.Unattributed {
		return human.Name(s.Method)
	}
	return human.Name(s.Method) + " for " + human.Name(s.Region)
}

// probe finds out whether the same call would be granted now.
func (e *Explanation) probe(ctx context.Context, c *client.Client) error {
	r := e.Refusal
	call := quota.Call{Account: r.Account, Method: r.Method, Units: r.Units, Caller: r.RefusedError().Caller}
	if call.Units == 0 {
		priced, err := c.Table().Call(r.Account, r.Method)
		if err != nil {
			e.Now.Reason = new("costs.yaml has no price for " + r.Method)
			return nil
		}
		call.Units = priced.Units
	}
	err := c.Guard().Probe(ctx, call)
	refused, ok := errors.AsType[*quota.RefusedError](err)
	switch {
	case ok && refused.Reason == quota.ReasonCooldown:
		e.Now.Reason = new(fmt.Sprintf("%s is in cooldown until %s", human.Scope(r.Account, refused.Budget), human.Time(refused.RetryAt)))
	case ok:
		e.Now.Reason = new(fmt.Sprintf("%s has %d of %s left, it needs %d", refused.Budget, refused.Remaining, human.Amount(refused.Limit, refused.Measure.String()), refused.Needed))
	case errors.Is(err, quota.ErrNeverFits):
		e.Now.Reason = new(err.Error())
	case err != nil:
		return err
	}
	e.Now.Granted = new(err == nil)
	return nil
}
