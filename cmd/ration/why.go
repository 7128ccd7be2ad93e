package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why",
		Short: "Explain the last refusal, and what would have helped",
		Long: `Why explains the last refusal that ended a run or a spend with this state
folder: which budget or cooldown it was, who had spent that budget's window at
that instant, what would have had to be different, and whether the same call
would be granted now. Refusals are in no ledger: the last one is kept in the
state folder.

` + exitCodes(exitConfig),
		Example: "  ration why\n  ration why --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.why(cmd.Context()) },
	}
}

// explanation is what why says.
type explanation struct {
	At      time.Time              `json:"at"`
	Refusal *refusal               `json:"refusal"` // null: none is known
	Window  *string                `json:"window"`
	Since   *time.Time             `json:"since"` // of the window at that instant
	Held    quota.Units            `json:"held"`  // what the ledger holds of it now
	Method  map[string]quota.Units `json:"by_method"`
	Region  map[string]quota.Units `json:"by_region"`
	Lane    map[string]quota.Units `json:"by_lane"`
	Job     map[string]quota.Units `json:"by_job"`
	Short   quota.Units            `json:"short"`
	Limit   *quota.Units           `json:"limit_needed"`
	Helped  []string               `json:"would_have_helped"`
	Now     struct {
		Granted *bool   `json:"granted"` // null: not known
		Reason  *string `json:"reason"`
	} `json:"now"`

	most     spender // who spent most of it
	estimate bool    // the window is: of what it held before, a part counts
}

// spender is who spent how much: calls of one method for one region.
type spender struct {
	method, region string
	units          quota.Units
}

func (a *app) why(ctx context.Context) error {
	kept, err := a.readRefusal()
	if err != nil {
		return err
	}
	e := &explanation{At: a.now().UTC(), Refusal: kept, Method: map[string]quota.Units{}, Region: map[string]quota.Units{}, Lane: map[string]quota.Units{}, Job: map[string]quota.Units{}, Helped: []string{}}
	if kept == nil {
		if a.json {
			return a.writeJSON(e)
		}
		a.paragraph("", "no refusal is known here: none has ended a run or a spend with this state folder")
		return nil
	}
	table, err := a.prices()
	if err != nil {
		return err
	}
	s, err := a.openGuard(table, false)
	switch {
	case err == nil:
		defer s.Close()
		if err = e.explain(ctx, s, table); err != nil {
			err = fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
		}
	case errors.Is(err, errNoLedger):
		e.Now.Reason, err = new("there is no ledger at "+s.ledger.name), nil
	}
	if exit, _ := code(err); exit == exitLedger { // what is known is told all the same
		e.Now.Reason, err = new(err.Error()), nil
	}
	if err != nil {
		return err
	}
	e.help()
	if a.json {
		return a.writeJSON(e)
	}
	a.whyText(e)
	return nil
}

// explain reads the ledger: the window as it was, and what it says now.
func (e *explanation) explain(ctx context.Context, s *spending, table *costs.Table) error {
	r := e.Refusal
	at, _, err := s.guard.Now(ctx, r.Account)
	if err != nil {
		return err
	}
	e.At = at.UTC()
	budgets := table.Budgets()
	for i := range budgets {
		if b := &budgets[i]; r.Budget != nil && b.Account == r.Account && b.Name == *r.Budget && r.Ledger == s.ledger.name {
			if err := e.spenders(ctx, s, b, quota.Coverages(budgets)[i]); err != nil {
				return err
			}
		}
	}
	if r.Ledger != s.ledger.name {
		e.Now.Reason = new("it was another ledger, " + r.Ledger)
		return nil
	}
	return e.now(ctx, s, table)
}

// spenders adds up who had spent the budget's window at the instant of the refusal.
func (e *explanation) spenders(ctx context.Context, s *spending, budget *quota.Budget, coverage *quota.Coverage) error {
	at, window := e.Refusal.At, budget.Window
	since := at.Add(-window.Horizon() + time.Microsecond)
	if window.Kind() == quota.KindDaily {
		since = window.Day(at).Since
	}
	e.Window, e.Since, e.estimate = new(window.String()), instant(since), window.Estimate()
	groups := map[spender]quota.Units{}
	for entry, err := range s.ledger.Entries(ctx, quota.Query{Account: budget.Account, Since: since, Until: at.Add(time.Microsecond)}) {
		if err != nil {
			return err
		}
		amount := entry.Units
		if coverage.Measure == quota.Calls {
			amount = entry.Calls
		}
		if amount == 0 || !coverage.Covers(entry.Method, entry.Caller) {
			continue
		}
		method, region := dash(entry.Method), dash(entry.Caller.Region)
		e.Held += amount
		e.Method[method] += amount
		e.Region[region] += amount
		e.Lane[dash(entry.Caller.Lane)] += amount
		e.Job[dash(entry.Caller.Job)] += amount
		who := spender{method: method, region: region}
		groups[who] += amount
		if kept := budget.Floor[region] > 0 && region != e.Refusal.Region; groups[who] > e.most.units && !kept { // less of a floor used is more kept
			e.most = spender{method, region, groups[who]}
		}
	}
	return nil
}

// help finds what would have had to be different.
func (e *explanation) help() {
	r := e.Refusal
	helped := func(format string, args ...any) { e.Helped = append(e.Helped, fmt.Sprintf(format, args...)) }
	later := func() {
		helped("a call %s later, at %s, if nobody had spent meanwhile", quota.Human(r.RetryAt.Sub(r.At)), quota.Stamp(r.RetryAt))
	}
	switch quota.Reason(r.Reason) {
	case quota.ReasonSpent:
		e.Short = r.Needed - r.Remaining
		if r.Remaining == 0 && !e.estimate { // more than the limit may have been used
			e.Short = max(e.Short, e.Held+r.Kept+r.Needed-r.Limit)
		}
		e.Limit = new(r.Limit + e.Short)
		helped("a limit of %s or more for %s", measured(*e.Limit, r.Measure), safe(*r.Budget))
		if e.most.units > 0 {
			helped("%s less spent before; %s had %d", measured(e.Short, r.Measure), e.most, e.most.units)
		}
		if r.Kept > 0 && r.Kept >= e.Short { // without the floors the call would fit
			helped("fewer than the %s that %s kept for the floors of other regions", measured(r.Kept, r.Measure), were(r.Kept))
		}
		later()
	case quota.ReasonCooldown:
		later()
		name := "--account " + r.Account
		if r.Budget != nil {
			name = *r.Budget
		}
		helped("lifting the cooldown, if the upstream serves again: ration cooldown clear %s", name)
	default:
		helped("no other call of the same process that waited for the same budget")
		later()
	}
}

// String names who spent: search.list for GB.
func (g spender) String() string {
	if g.region == "-" {
		return safe(g.method)
	}
	return safe(g.method) + " for " + safe(g.region)
}

// now finds whether the same call would be granted, without spending it.
func (e *explanation) now(ctx context.Context, s *spending, table *costs.Table) error {
	r := e.Refusal
	call := quota.Call{Account: r.Account, Method: r.Method, Units: r.Units, Caller: quota.Caller{Region: undash(r.Region), Job: undash(r.Job), Lane: undash(r.Lane)}}
	if call.Units == 0 {
		priced, err := table.Call(r.Account, r.Method)
		if err != nil {
			e.Now.Reason = new("costs.yaml has no price for " + r.Method)
			return nil
		}
		call.Units = priced.Units
	}
	err := s.guard.Probe(ctx, call)
	refused, ok := errors.AsType[*quota.RefusedError](err)
	switch {
	case ok && refused.Reason == quota.ReasonCooldown:
		e.Now.Reason = new(fmt.Sprintf("%s is in cooldown until %s", whose(r.Account, refused.Budget), quota.Stamp(refused.RetryAt)))
	case ok:
		e.Now.Reason = new(fmt.Sprintf("%s has %d of %s left, it needs %d", refused.Budget, refused.Remaining, measured(refused.Limit, refused.Measure.String()), refused.Needed))
	case errors.Is(err, quota.ErrNeverFits):
		e.Now.Reason = new(err.Error())
	case err != nil:
		return err
	}
	e.Now.Granted = new(err == nil)
	return nil
}

// undash is dash undone.
func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// whyText is why for people.
func (a *app) whyText(e *explanation) {
	r := e.Refusal
	a.paragraph("refused  ", "%s, %s, at %s (%s ago)", safe(r.Method), counted(r.Units, "unit"), quota.Stamp(r.At), quota.Human(e.At.Sub(r.At)))
	a.paragraph("for      ", "region %s, job %s, lane %s", safe(r.Region), safe(r.Job), safe(r.Lane))
	a.paragraph("because  ", "%s", r.Message)
	if e.Window != nil && len(e.Method) > 0 {
		part := ""
		if e.Held < r.Limit-r.Kept-r.Remaining {
			part = ", as far as the ledger still holds it"
		}
		if e.estimate {
			part = " at most"
		}
		fmt.Fprintln(a.stdout)
		a.paragraph("", "%s, its window of %s then: %s%s, by", safe(*r.Budget), *e.Window, measured(e.Held, r.Measure), part)
		t := a.table("", "who had spent it")
		for _, by := range []struct {
			what string
			sums map[string]quota.Units
		}{{"method", e.Method}, {"region", e.Region}, {"lane", e.Lane}, {"job", e.Job}} {
			t.row(by.what, ranked(by.sums, 5))
		}
		t.print()
	}
	fmt.Fprintln(a.stdout, "\nwhat would have helped")
	for _, what := range e.Helped {
		a.paragraph("  ", "%s", what)
	}
	switch now := e.Now; {
	case now.Granted == nil:
		fmt.Fprintln(a.stdout)
		a.paragraph("now      ", "not known: %s", *now.Reason)
	case *now.Granted:
		fmt.Fprintln(a.stdout, "\nnow      it would be granted")
	default:
		fmt.Fprintln(a.stdout)
		a.paragraph("now      ", "it would be refused: %s", *now.Reason)
	}
}
