package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why",
		Short: "Explain the last refusal, and what would have helped",
		Long: `Why explains the last refusal that ended a run or a spend with this state
folder: the budget or cooldown, who had spent that budget's window at the time,
what would have had to be different, and whether the same call would be granted
now. Ledgers do not record refusals; the state folder keeps the last one.

` + exitCodes(exitConfig),
		Example: "  ration why\n  ration why --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.why(cmd.Context()) },
	}
}

// explanation is what why says.
type explanation struct {
	At      time.Time   `json:"at"`
	Refusal *refusal    `json:"refusal"` // null: none is known
	Window  *string     `json:"window"`
	Since   *time.Time  `json:"since"` // of the window at that time
	Held    quota.Units `json:"held"`  // what the ledger holds of it now
	usage.Attribution
	Short  quota.Units  `json:"short"`
	Limit  *quota.Units `json:"limit_needed"`
	Helped []string     `json:"would_have_helped"`
	Now    struct {
		Granted *bool   `json:"granted"` // null: not known
		Reason  *string `json:"reason"`
	} `json:"now"`

	estimate bool // the window is: of what it held before, a part counts
}

func (a *app) why(ctx context.Context) error {
	kept, err := a.readRefusal()
	if err != nil {
		return err
	}
	e := &explanation{At: a.now().UTC(), Refusal: kept, Attribution: usage.Attribution{}.NotNil(), Helped: []string{}}
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
	err = a.withClient(table, false, func(c *client.Client) error { return e.ask(ctx, c) })
	if errors.Is(err, errNoLedger) {
		e.Now.Reason, err = new("there is no ledger at "+a.ledgerName()), nil
	}
	if exit, _ := code(err); exit == exitLedger { // what is known is told all the same
		e.Now.Reason, err = new(err.Error()), nil
	}
	if err != nil {
		return err
	}
	if len(e.Helped) == 0 { // the ledger could not be asked
		if err := e.explain(ctx, nil); err != nil {
			return err
		}
	}
	if a.json {
		return a.writeJSON(e)
	}
	a.whyText(e)
	return nil
}

// ask asks the ledger: what the window was, and what it would say now.
func (e *explanation) ask(ctx context.Context, c *client.Client) error {
	at, _, err := c.Guard().Now(ctx, e.Refusal.Account)
	if err != nil {
		return err
	}
	e.At = at.UTC()
	if e.Refusal.Ledger != c.LedgerName() {
		e.Now.Reason = new("it was another ledger, " + e.Refusal.Ledger)
		return nil
	}
	if err := e.explain(ctx, c.Guard()); err != nil {
		return err
	}
	return e.now(ctx, c)
}

// explain finds what would have had to be different, from the ledger of a guard,
// or with nil from the refusal alone.
func (e *explanation) explain(ctx context.Context, guard *quota.Guard) error {
	found, err := usage.Explain(ctx, guard, e.Refusal.RefusedError(), e.Refusal.At)
	if err != nil {
		return err
	}
	if found.Window != (quota.Window{}) {
		e.Window, e.Since, e.estimate = new(found.Window.String()), human.Instant(found.Since), found.Window.Estimate()
	}
	e.Held, e.Attribution, e.Short = found.Held, found.Attribution.NotNil(), found.Short
	e.help(found)
	return nil
}

// help says what would have helped.
func (e *explanation) help(found *usage.Explanation) {
	r := e.Refusal
	helped := func(format string, args ...any) { e.Helped = append(e.Helped, fmt.Sprintf(format, args...)) }
	later := func() {
		helped("a call %s later, at %s, if nobody had spent meanwhile", human.Duration(r.RetryAt.Sub(r.At)), human.Time(r.RetryAt))
	}
	switch quota.Reason(r.Reason) {
	case quota.ReasonSpent:
		e.Limit = &found.LimitNeeded
		helped("a limit of %s or more for %s", human.Amount(*e.Limit, r.Measure), human.Name(*r.Budget))
		if found.Most.Units > 0 {
			helped("%s less spent before; %s had %d", human.Amount(e.Short, r.Measure), spender(&found.Most), found.Most.Units)
		}
		if found.FloorsMattered {
			helped("fewer than the %s that %s kept for the floors of other regions", human.Amount(r.Kept, r.Measure), human.Was(r.Kept))
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

// spender names who spent: search.list for GB.
func spender(s *usage.Spender) string {
	if s.Region == usage.Unattributed {
		return human.Name(s.Method)
	}
	return human.Name(s.Method) + " for " + human.Name(s.Region)
}

// now finds whether the same call would be granted, without spending it.
func (e *explanation) now(ctx context.Context, c *client.Client) error {
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
		e.Now.Reason = new(fmt.Sprintf("%s is in cooldown until %s", whose(r.Account, refused.Budget), human.Time(refused.RetryAt)))
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

// whyText is why for people.
func (a *app) whyText(e *explanation) {
	r := e.Refusal
	a.paragraph("refused  ", "%s, %s, at %s (%s ago)", human.Name(r.Method), human.Count(r.Units, "unit"), human.Time(r.At), human.Duration(e.At.Sub(r.At)))
	a.paragraph("for      ", "region %s, job %s, lane %s", human.Name(r.Region), human.Name(r.Job), human.Name(r.Lane))
	a.paragraph("because  ", "%s", r.Message)
	if e.Window != nil && len(e.ByMethod) > 0 {
		part := ""
		if e.Held < r.Limit-r.Kept-r.Remaining {
			part = ", as far as the ledger still holds it"
		}
		if e.estimate {
			part = " at most"
		}
		fmt.Fprintln(a.stdout)
		a.paragraph("", "%s, its window of %s then: %s%s, by", human.Name(*r.Budget), *e.Window, human.Amount(e.Held, r.Measure), part)
		t := a.table("", "who had spent it")
		eachDimension(&e.Attribution, 5, func(by, who string) { t.Row(by, who) })
		t.Print()
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
