package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	Text    string   `json:"text"` // all of it in one sentence
	Account string   `json:"account"`
	Budget  *string  `json:"budget"` // that refuses for longest; null: a cooldown of the whole account
	Key     *string  `json:"key,omitempty"`
	Reason  string   `json:"reason"` // as of a refusal: spent or cooldown
	Detail  *string  `json:"detail"` // the upstream's words, of a cooldown
	Methods []string `json:"methods"`
	// Of names the only callers that are refused: region US. Granted are regions
	// whose calls are granted, by their floors.
	Of      string   `json:"of,omitempty"`
	Granted []string `json:"granted_regions,omitempty"`
	// since when the first of Methods is refused, whatever refused it then
	Since time.Time `json:"since"`
	Host  *string   `json:"host"` // that was refused first
	// of the refusals in the log: at most one a minute for each process
	Count    int64                `json:"count"`
	Until    time.Time            `json:"until"` // if nothing more is spent
	Measure  string               `json:"measure"`
	Used     quota.Units          `json:"used"`
	Limit    quota.Units          `json:"limit"`
	Largest  *usage.LargestCaller `json:"largest"` // null if nobody has a name
	Earlier  *string              `json:"earlier"` // another budget that refuses the same calls, and for a shorter time
	earlyEnd time.Time
	isMixed  bool                // some of it is refused only since later
	needed   quota.Units         // what the limit would have to be
	upstream quota.Units         // what the upstream allows; 0 if unknown
	refused  *quota.RefusedError // by Budget
	by       []string            // all budgets that refuse such calls
}

// refusedCall is a call that was refused, and what refuses it now.
type refusedCall struct {
	*usage.MethodRefusal
	budgets []*usage.BudgetStatus // of the account
	call    quota.Call
	by      []*quota.RefusedError
	fits    bool // the limits admit it at some time
}

// probe finds out what refuses each call that the logs have as refused. It
// charges nothing.
func probe(ctx context.Context, c *client.Client, statuses []usage.BudgetStatus) (all []*refusedCall, err error) {
	accounts := map[string][]*usage.BudgetStatus{}
	for i := range statuses {
		account := statuses[i].Budget.Account
		accounts[account] = append(accounts[account], &statuses[i])
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		for _, r := range accounts[account][0].Refused {
			call, err := c.Table().Call(account, r.Method)
			if err != nil {
				continue // it has no price any more
			}
			call.Key, call.Caller = r.Key, r.Caller
			one := &refusedCall{MethodRefusal: r, budgets: accounts[account], call: call, fits: true}
			one.by, err = c.Guard().ProbeAll(ctx, call)
			if errors.Is(err, quota.ErrNeverFits) {
				one.fits = false
			} else if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// budget returns a budget of the account, or nil.
func (r *refusedCall) budget(name string) *usage.BudgetStatus {
	for _, b := range r.budgets {
		if b.Budget.Name == name {
			return b
		}
	}
	return nil
}

// Refusing finds out which of the calls that were refused are refused now, at a
// time on the ledger's clock. It charges nothing.
func Refusing(ctx context.Context, c *client.Client, statuses []usage.BudgetStatus, at time.Time) ([]*Refusal, error) {
	calls, err := probe(ctx, c, statuses)
	if err != nil {
		return nil, err
	}
	var found []*Refusal
	for _, call := range calls {
		one, err := call.refusal(ctx, c)
		if err != nil {
			return nil, err
		}
		if one != nil {
			found = append(found, one)
		}
	}
	// those of all callers first, since they say it of some
	slices.SortStableFunc(found, func(x, y *Refusal) int { return len(x.Of) - len(y.Of) })
	all := []*Refusal{}
	for _, one := range found {
		all = merge(all, one)
	}
	slices.SortStableFunc(all, func(x, y *Refusal) int { return x.Since.Compare(y.Since) })
	for _, one := range all {
		one.Text = one.sentence(at)
	}
	return all, nil
}

// IsRefusing reports whether a budget of an account refuses calls that are
// refused.
func IsRefusing(refusing []*Refusal, account, budget string) bool {
	return slices.ContainsFunc(refusing, func(r *Refusal) bool {
		return r.Account == account && slices.Contains(r.by, budget)
	})
}

// DropForecasts takes the forecasts of a first refusal from the budgets that
// refuse calls already.
func DropForecasts(budgets []*usage.BudgetReport, refusing []*Refusal) {
	for _, b := range budgets {
		if !IsRefusing(refusing, b.Account, b.Name) {
			continue
		}
		b.PlanOutAt = nil
		if b.Used < b.Limit {
			b.RunsOutAt = nil
		}
	}
}

// refusal says what refuses the call for longest. It is nil if nothing does, or
// if waiting does not help.
func (r *refusedCall) refusal(ctx context.Context, c *client.Client) (*Refusal, error) {
	if r.IsOver || len(r.by) == 0 {
		return nil, nil
	}
	last := r.by[0]
	for _, refused := range r.by {
		if refused.Moved() != nil {
			return nil, nil
		}
		if refused.RetryAt.After(last.RetryAt) {
			last = refused
		}
	}
	one := &Refusal{
		Account: last.Account, Budget: human.Optional(last.Budget),
		Reason: string(last.Reason), Detail: human.Optional(last.Detail),
		Methods: []string{r.Method}, Since: r.Since.UTC(), Until: human.JSONTime(last.RetryAt),
		Host: human.Optional(r.Host), Count: r.Count,
		Measure: last.Measure.String(), Used: last.Used, Limit: last.Limit,
		needed: last.Used + last.Kept + last.Needed, upstream: c.Table().UpstreamLimit(last.Account, last.Budget),
		refused: last,
	}
	if r.OfKey || last.OfKey {
		one.Key = human.Optional(r.Key)
	}
	for _, refused := range r.by {
		one.by = append(one.by, refused.Budget)
		isOther := refused.Budget != "" && refused.Budget != last.Budget
		if isOther && refused.RetryAt.Before(last.RetryAt) {
			one.Earlier, one.earlyEnd = &refused.Budget, refused.RetryAt
		}
	}
	b := r.budget(last.Budget)
	if b == nil {
		return one, nil
	}
	if largest := b.Largest(r.Key); largest.Units > 0 {
		one.Largest = &largest
	}
	one.Of = r.of(b)
	var err error
	one.Granted, err = r.granted(ctx, c, b, last)
	return one, err
}

// of names the callers that are refused if they are not all: those of a budget
// that refuses some callers only, and of a region with a floor.
func (r *refusedCall) of(b *usage.BudgetStatus) string {
	lanes, regions := b.Budget.Lanes, b.Budget.Regions
	if first := r.budget(r.Budget); first != nil {
		if len(lanes) == 0 {
			lanes = first.Budget.Lanes
		}
		if len(regions) == 0 {
			regions = first.Budget.Regions
		}
	}
	if r.Region != "" {
		regions = []string{r.Region}
	}
	var parts []string
	for _, by := range []struct {
		of    string
		names []string
	}{{"lane", lanes}, {"region", regions}} {
		if len(by.names) > 0 {
			parts = append(parts, plural(by.of, by.names))
		}
	}
	return strings.Join(parts, " and ")
}

// plural names one or several of a kind: regions DE and IN.
func plural(of string, names []string) string {
	if len(names) > 1 {
		of += "s"
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = human.Name(name)
	}
	return of + " " + strings.Join(shown, " and ")
}

// granted returns the regions with floors whose calls would be granted.
func (r *refusedCall) granted(ctx context.Context, c *client.Client, b *usage.BudgetStatus,
	refused *quota.RefusedError) (regions []string, err error) {
	if refused.Kept == 0 {
		return nil, nil
	}
	for _, region := range slices.Sorted(maps.Keys(b.Budget.Floor)) {
		call := r.call
		call.Caller.Region = region
		refusals, err := c.Guard().ProbeAll(ctx, call)
		if err != nil {
			return nil, err
		}
		if len(refusals) == 0 {
			regions = append(regions, region)
		}
	}
	return regions, nil
}

// merge adds what is refused to that of the same budget.
func merge(all []*Refusal, one *Refusal) []*Refusal {
	for _, known := range all {
		isSame := known.Account == one.Account && human.Given(known.Budget) == human.Given(one.Budget) &&
			human.Given(known.Key) == human.Given(one.Key)
		if !isSame || !slices.Equal(known.Granted, one.Granted) {
			continue
		}
		hasMethod := slices.Contains(known.Methods, one.Methods[0])
		if isPart := known.Of == "" && hasMethod; known.Of != one.Of && !isPart {
			continue
		}
		known.add(one, hasMethod)
		return all
	}
	return append(all, one)
}

// add adds one, of one method, which r has already or not.
func (r *Refusal) add(one *Refusal, hasMethod bool) {
	r.isMixed = r.isMixed || !hasMethod || r.Of != one.Of
	isFirst := one.Since.Before(r.Since)
	if isFirst {
		r.Since, r.Host = one.Since, one.Host
	}
	if hasMethod && isFirst {
		r.Methods = slices.DeleteFunc(r.Methods, func(method string) bool { return method == one.Methods[0] })
		hasMethod = false
	}
	switch {
	case hasMethod:
	case isFirst:
		r.Methods = append(one.Methods, r.Methods...)
	default:
		r.Methods = append(r.Methods, one.Methods...)
	}
	r.Count += one.Count
	if one.Until.Before(r.Until) {
		r.Until = one.Until
	}
	r.needed = max(r.needed, one.needed)
	for _, budget := range one.by {
		if !slices.Contains(r.by, budget) {
			r.by = append(r.by, budget)
		}
	}
}

// maxMethods is the most methods that a sentence lists.
const maxMethods = 3

// calls names the calls that are refused.
func (r *Refusal) calls() string {
	calls := "calls of " + human.Count(len(r.Methods), "method")
	if len(r.Methods) <= maxMethods {
		calls = strings.Join(r.Methods, " and ") + " calls"
	}
	if r.Of != "" {
		calls += " of " + r.Of
	}
	if r.Key != nil {
		calls += " of key " + human.Name(*r.Key)
	}
	if len(r.Granted) > 0 {
		calls += ", except those of " + plural("region", r.Granted) + ","
	}
	return calls
}

// sentence says what is refused, since when, until when and who spent it.
func (r *Refusal) sentence(now time.Time) string {
	when := func(t time.Time) string { return human.Dated(t.UTC(), now, human.TableTime) }
	first := ""
	if r.isMixed && len(r.Methods) > 1 {
		first = ", " + r.Methods[0] + " first,"
	} else if r.isMixed {
		first = ", the first"
	}
	text := fmt.Sprintf("%s: all %s refused%s since %s", human.Name(r.Account), r.calls(), first, when(r.Since))
	if r.Host != nil {
		text += " on " + human.Name(*r.Host)
	}
	text += fmt.Sprintf(" (%d so far), until %s", r.Count, when(r.Until))
	if r.Reason == string(quota.ReasonCooldown) {
		return text + fmt.Sprintf(": a cooldown, %q; if the upstream serves again, %s ends it", human.Given(r.Detail),
			human.ClearCommand(r.Account, human.Given(r.Budget), keyAlone(r.refused)))
	}
	if r.Earlier != nil {
		text += fmt.Sprintf(", though %s has room from %s on", human.Name(*r.Earlier), when(r.earlyEnd))
	}
	measure := quota.Measure(r.Measure)
	of := fmt.Sprintf("of %s of %s", measure.Text(r.Limit), human.Name(human.Given(r.Budget)))
	if r.Largest != nil {
		text += fmt.Sprintf("; %s spent %s %s", r.Largest, measure.Number(r.Largest.Units), of)
	} else {
		text += fmt.Sprintf("; %s %s are used", measure.Number(r.Used), of)
	}
	if kept := r.refused.Kept; kept > 0 {
		text += fmt.Sprintf(" (%s reserved for other regions)", measure.Number(kept))
	}
	if isAllowed(r.needed, r.upstream) {
		text += "; sooner with a limit of " + measure.Number(r.needed) + otherLimit(r.refused)
	}
	return text
}

// isAllowed reports whether the upstream allows a limit; upstream is 0 if that
// is unknown.
func isAllowed(limit, upstream quota.Units) bool { return upstream == 0 || limit <= upstream }

// otherLimit says what else a higher limit needs if the one that holds is that
// of another configuration, and is "" otherwise.
func otherLimit(r *quota.RefusedError) string {
	if r.ConfiguredLimit == 0 {
		return ""
	}
	return fmt.Sprintf(" in every configuration: that of %s is another's, and if that one is no longer in use, "+
		"ration ledger accept ends it", r.Measure.Number(r.Limit))
}
