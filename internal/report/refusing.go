package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Refusal is a budget, or a cooldown, that refuses all calls of some methods
// now.
type Refusal struct {
	Text    string    `json:"text"` // all of it in one sentence
	Account string    `json:"account"`
	Budget  *string   `json:"budget"` // null: a cooldown of the whole account
	Key     *string   `json:"key,omitempty"`
	Reason  string    `json:"reason"` // as of a refusal: spent or cooldown
	Detail  *string   `json:"detail"` // the upstream's words, of a cooldown
	Methods []string  `json:"methods"`
	Since   time.Time `json:"since"`
	Host    *string   `json:"host"` // that was refused first
	// of the refusals in the log: the first of each hour, process and budget
	Count    int64                `json:"count"`
	Until    time.Time            `json:"until"` // if nothing more is spent
	Measure  string               `json:"measure"`
	Used     quota.Units          `json:"used"`
	Limit    quota.Units          `json:"limit"`
	Largest  *usage.LargestCaller `json:"largest"` // null if nobody has a name
	Earlier  *string              `json:"earlier"` // another budget that refuses the same calls, and for a shorter time
	needed   quota.Units          // what the limit would have to be
	earlyEnd time.Time
}

// Refusing finds out which of the methods that budgets have refused are refused
// now, at a time on the ledger's clock. It charges nothing.
func Refusing(ctx context.Context, c *client.Client, statuses []usage.BudgetStatus, at time.Time) ([]*Refusal, error) {
	all := []*Refusal{}
	for i := range statuses {
		b := &statuses[i]
		for j := range b.Refused {
			one, err := newRefusing(ctx, c, b, &b.Refused[j])
			if err != nil {
				return nil, err
			}
			if one != nil {
				all = merge(all, one)
			}
		}
	}
	for _, one := range all {
		one.Text = one.sentence(at)
	}
	return all, nil
}

// DropForecasts takes the forecasts of a first refusal from the budgets that
// refuse calls already.
func DropForecasts(budgets []*usage.BudgetReport, refusing []*Refusal) {
	for _, r := range refusing {
		for _, b := range budgets {
			if b.Account != r.Account || b.Name != human.Given(r.Budget) {
				continue
			}
			b.PlanOutAt = nil
			if b.Used < b.Limit {
				b.RunsOutAt = nil
			}
		}
	}
}

// newRefusing returns nil if the method would be granted now, or is refused by
// something else.
func newRefusing(ctx context.Context, c *client.Client, b *usage.BudgetStatus, r *usage.MethodRefusal) (*Refusal,
	error) {
	call, err := c.Table().Call(b.Budget.Account, r.Method)
	if err != nil {
		return nil, nil // it has no price any more
	}
	call.Key, call.Caller = r.Key, r.Caller
	refusals, err := c.Guard().ProbeAll(ctx, call)
	if errors.Is(err, quota.ErrNeverFits) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var own, last *quota.RefusedError // by the budget, and the one that lasts longest
	for _, refused := range refusals {
		if _, moves := refused.Move(); moves {
			return nil, nil
		}
		if refused.Budget == b.Budget.Name || refused.Budget == "" && r.OfAll {
			own = later(own, refused)
		}
		last = later(last, refused)
	}
	if own == nil || own != last { // that one is told of
		return nil, nil
	}
	one := &Refusal{
		Account: own.Account, Budget: human.Optional(own.Budget),
		Reason: string(own.Reason), Detail: human.Optional(own.Detail),
		Methods: []string{r.Method}, Since: r.Since.UTC(), Until: human.JSONTime(own.RetryAt),
		Host: human.Optional(r.Host), Count: r.Count,
		Measure: b.Budget.Measure.String(), Used: b.Used, Limit: b.Limit(),
		needed: own.Used + own.Kept + own.Needed,
	}
	if own.OfKey {
		one.Key = &own.Key
		one.Used, one.Limit = own.Used, own.Limit
	}
	if own.Budget != "" && b.Largest.Units > 0 {
		one.Largest = &b.Largest
	}
	for _, refused := range refusals {
		if refused.Budget != "" && refused.Budget != own.Budget && refused.RetryAt.Before(own.RetryAt) {
			one.Earlier, one.earlyEnd = &refused.Budget, refused.RetryAt
		}
	}
	return one, nil
}

// later returns the refusal that lasts longer; the first may be nil.
func later(a, b *quota.RefusedError) *quota.RefusedError {
	if a == nil || b.RetryAt.After(a.RetryAt) {
		return b
	}
	return a
}

// merge adds what is refused to that of the same budget.
func merge(all []*Refusal, one *Refusal) []*Refusal {
	for _, known := range all {
		isSame := known.Account == one.Account && human.Given(known.Budget) == human.Given(one.Budget)
		if !isSame || human.Given(known.Key) != human.Given(one.Key) {
			continue
		}
		for _, method := range known.Methods {
			if method == one.Methods[0] {
				return all // of a cooldown, which each budget tells of
			}
		}
		known.Methods, known.Count = append(known.Methods, one.Methods...), known.Count+one.Count
		if one.Since.Before(known.Since) {
			known.Since, known.Host = one.Since, one.Host
		}
		if one.Until.Before(known.Until) {
			known.Until = one.Until
		}
		return all
	}
	return append(all, one)
}

// maxMethods is the most methods that a sentence lists.
const maxMethods = 3

// sentence says what is refused, since when, until when and who spent it.
func (r *Refusal) sentence(now time.Time) string {
	calls := "calls of " + human.Count(len(r.Methods), "method")
	if len(r.Methods) <= maxMethods {
		calls = strings.Join(r.Methods, " and ") + " calls"
	}
	if r.Key != nil {
		calls += " of key " + human.Name(*r.Key)
	}
	when := func(t time.Time) string { return human.Dated(t.UTC(), now, human.TableTime) }
	since := human.Dated(r.Since, now, human.TableTime)
	text := fmt.Sprintf("%s: all %s refused since %s", human.Name(r.Account), calls, since)
	if r.Host != nil {
		text += " on " + human.Name(*r.Host)
	}
	text += fmt.Sprintf(" (%d so far), until %s", r.Count, when(r.Until))
	number := quota.Measure(r.Measure).Number
	if r.Reason == string(quota.ReasonCooldown) {
		return text + fmt.Sprintf(": a cooldown, %q; if the upstream serves again, %s ends it", human.Given(r.Detail),
			human.ClearCommand(r.Account, human.Given(r.Budget), human.Given(r.Key)))
	}
	if r.Earlier != nil {
		text += fmt.Sprintf(", though %s has room from %s on", human.Name(*r.Earlier), when(r.earlyEnd))
	}
	text += "; "
	if r.Largest != nil {
		text += fmt.Sprintf("%s spent %s of ", r.Largest, number(r.Largest.Units))
	}
	text += fmt.Sprintf("%s of %s", quota.Measure(r.Measure).Text(r.Limit), human.Name(human.Given(r.Budget)))
	if r.Largest == nil {
		text += " are spent"
	}
	return text + fmt.Sprintf("; sooner with a limit of %s", number(r.needed))
}
