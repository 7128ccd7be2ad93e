// Package report explains: a refusal (who had spent the budget, what would have
// had to be different, whether the same call would be granted now), what is
// refused at this moment, a cooldown, and an upstream's answer.
package report

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Why is the JSON document of ration why.
type Why struct {
	At      time.Time       `json:"at"`
	Refusal *client.Refusal `json:"refusal"` // null: none is known
	Window  *string         `json:"window"`
	Since   *time.Time      `json:"since"` // the beginning of the window at the time of the refusal
	Held    quota.Units     `json:"held"`  // what the ledger still holds of that window
	usage.Attribution
	Short  quota.Units  `json:"short"`
	Limit  *quota.Units `json:"limit_needed"`
	Helped []string     `json:"would_have_helped"`
	// Outside says what was spent outside ration, by what the upstream said.
	Outside *string `json:"outside"`
	Now     struct {
		Granted *bool    `json:"granted"` // null: not known
		Reason  *string  `json:"reason"`  // the one that lasts longest
		Reasons []string `json:"reasons"` // all of them
	} `json:"now"`
}

// NewWhy returns what follows from a refusal alone. refusal may be nil.
func NewWhy(refusal *client.Refusal, at time.Time) *Why {
	d := &Why{At: at.UTC(), Refusal: refusal, Attribution: usage.Attribution{}.NotNil(), Helped: []string{}}
	d.Now.Reasons = []string{}
	if refusal != nil {
		d.set(&usage.Explanation{}, 0)
	}
	return d
}

// ReadLedger adds what the ledger of c says: who had spent the window, and
// whether the same call would be granted now. It charges nothing.
func (d *Why) ReadLedger(ctx context.Context, c *client.Client) error {
	at, _, err := c.Guard().Now(ctx, d.Refusal.Account)
	if err != nil {
		return err
	}
	d.At = at.UTC()
	if d.Refusal.Ledger != c.LedgerName() {
		d.SetReason("it was another ledger, " + d.Refusal.Ledger)
		return nil
	}
	found, err := usage.Explain(ctx, c.Guard(), d.Refusal.RefusedError(), d.Refusal.At)
	if err != nil {
		return err
	}
	d.set(found, c.Table().UpstreamLimit(d.Refusal.Account, human.Given(d.Refusal.Budget)))
	if err := d.findOutside(ctx, c); err != nil {
		return err
	}
	return d.probe(ctx, c)
}

// findOutside finds out what was spent outside ration.
func (d *Why) findOutside(ctx context.Context, c *client.Client) error {
	balances, err := c.Guard().AccountBalances(ctx, d.Refusal.Account)
	for i := range balances {
		b := &balances[i]
		if text := usage.Outside(b, c.Table().UpstreamLimit(b.Budget.Account, b.Budget.Name)); text != "" {
			d.Outside = &text
		}
	}
	return err
}

// set sets what was found, and what would have helped. upstream is the limit
// that the upstream allows, or 0 if that is unknown.
func (d *Why) set(found *usage.Explanation, upstream quota.Units) {
	if found.Window != (quota.Window{}) {
		d.Window, d.Since = new(found.Window.String()), human.OptionalTime(found.Since)
	}
	d.Held = found.Held
	d.Attribution = found.Attribution.NotNil()
	d.Helped = nil
	r, refused := d.Refusal, d.Refusal.RefusedError()
	key := keyAlone(refused)
	later := fmt.Sprintf("a call %s later, at %s, if nothing else had been spent meanwhile",
		human.Duration(r.RetryAt.Sub(r.At)), human.Time(r.RetryAt))
	switch quota.Reason(r.Reason) {
	case quota.ReasonSpent, quota.ReasonInFlight:
		if r.Reason == string(quota.ReasonInFlight) {
			later = "a call a moment later: room returns when calls that were in flight end, or turn out to cost " +
				"less than was reserved for them"
		}
		d.Short = r.Needed - r.Remaining
		if r.Remaining == 0 && found.Window.Kind() != engine.Bucket { // more than the limit may have been used
			d.Short = max(d.Short, d.Held+r.Kept+r.Needed-r.Limit)
		}
		if d.Limit = nil; isAllowed(r.Limit+d.Short, upstream) {
			d.Limit = new(r.Limit + d.Short)
			d.helped("a limit of %s or more for %s%s", quota.Measure(r.Measure).Text(*d.Limit),
				human.Scope(r.Account, *r.Budget, key), otherLimit(refused))
		}
		if found.Most.Units > 0 {
			d.helped("%s less spent before; %s had %s", quota.Measure(r.Measure).Text(d.Short), &found.Most,
				quota.Measure(r.Measure).Number(found.Most.Units))
		}
		if r.Kept > 0 && r.Kept >= d.Short {
			d.helped("fewer than the %s that %s kept for the floors of other regions",
				quota.Measure(r.Measure).Text(r.Kept), human.Was(r.Kept))
		}
		if !r.RetryAt.IsZero() {
			d.helped("%s", later)
		}
	case quota.ReasonCooldown:
		if !r.RetryAt.IsZero() {
			d.helped("%s", later)
		}
		d.helped("lifting the cooldown, if the upstream serves again: %s",
			human.ClearCommand(r.Account, refused.Budget, key))
	case quota.ReasonPace:
		d.helped("%s: pace: true of the lane spreads its calls over the window", later)
	case quota.ReasonShare:
		d.helped("a larger --max-share, or another run")
	default:
		d.helped("no other call of the same process that waited for the same budget")
		d.helped("%s", later)
	}
}

// HeldText says what the window held at the time of the refusal.
func (d *Why) HeldText() string {
	text := quota.Measure(d.Refusal.Measure).Text(d.Held)
	if d.Held < d.Refusal.Limit-d.Refusal.Kept-d.Refusal.Remaining {
		text += ", as far as the ledger still holds it"
	}
	return text
}

func (d *Why) helped(format string, args ...any) {
	d.Helped = append(d.Helped, fmt.Sprintf(format, args...))
}

// probe finds out whether the same call would be granted now.
func (d *Why) probe(ctx context.Context, c *client.Client) error {
	r := d.Refusal
	call := quota.Call{Account: r.Account, Key: r.RefusedError().Key, Method: r.Method, Units: r.Units,
		Caller: r.RefusedError().Caller}
	priced, err := c.Table().Call(r.Account, r.Method)
	if call.Measures = priced.Measures; call.Units == 0 {
		if err != nil {
			d.SetReason("costs.yaml has no price for " + r.Method)
			return nil
		}
		call.Units = priced.Units
	}
	refusals, err := c.Guard().ProbeAll(ctx, call)
	if errors.Is(err, quota.ErrNeverFits) {
		d.SetReason(err.Error())
	} else if err != nil {
		return err
	}
	var last time.Time
	for _, refused := range refusals {
		text := nowText(refused)
		d.Now.Reasons = append(d.Now.Reasons, text)
		if d.Now.Reason == nil || refused.RetryAt.After(last) {
			last, d.Now.Reason = refused.RetryAt, &text
		}
	}
	d.Now.Granted = new(len(d.Now.Reasons) == 0)
	return nil
}

// SetReason sets the only reason why the call is not granted now, or why that
// is not known.
func (d *Why) SetReason(reason string) {
	d.Now.Reason, d.Now.Reasons = &reason, []string{reason}
}

// keyAlone returns the key that is refused alone, or "".
func keyAlone(r *quota.RefusedError) string {
	if r.OfKey {
		return r.Key
	}
	return ""
}

// nowText says what refuses a call, and until when if nothing else is spent.
func nowText(r *quota.RefusedError) string {
	if moved := r.Moved(); moved != nil {
		return moved.Error()
	}
	if r.Reason == quota.ReasonCooldown {
		return fmt.Sprintf("%s is in cooldown until %s", human.Scope(r.Account, r.Budget, keyAlone(r)),
			human.Time(r.RetryAt))
	}
	number := r.Measure.Number
	text := human.UnitsLeft(human.Scope(r.Account, r.Budget, keyAlone(r)), number(r.Remaining),
		r.Measure.Text(r.Limit), "", "it", number(r.Needed))
	switch {
	case r.Reason == quota.ReasonInFlight:
		text += "; room returns when calls that are in flight end"
	case !r.RetryAt.IsZero():
		text += fmt.Sprintf("; it fits from %s on, if nothing else is spent", human.Time(r.RetryAt))
	}
	return text
}
