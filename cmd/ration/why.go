package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/setup"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why",
		Short: "Explain the last refusal, and what would have helped",
		Long: `Why explains the last refusal of a command or a gateway with this state folder:
the budget or cooldown, who had spent that budget's window at the time, what
would have had to be different, and whether the same call would be granted now.
Without one, it explains the newest refusal of any host that the ledger has,
which has the first refusal in an hour of each method, not all of them.

` + exitCodes(exitConfig),
		Example: "  ration why\n  ration why --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.why(cmd.Context()) },
	}
}

func (a *app) why(ctx context.Context) error {
	kept, err := a.setup().LastRefusal()
	if err != nil {
		return err
	}
	e, err := a.explainRefusal(ctx, kept)
	if err != nil {
		return err
	}
	switch {
	case a.json:
		return a.writeJSON(e)
	case e.Refusal == nil:
		unknown := ""
		if e.Now.Reason != nil {
			unknown = "; " + *e.Now.Reason
		}
		a.paragraph("", "no refusal is known here: %s%s", a.setup().WhyNoRefusal(), unknown)
	default:
		a.whyText(e)
	}
	return nil
}

// explainRefusal explains a refusal or, if it is nil, the newest one in the
// ledger. The explanation says so if the ledger does not exist or is down.
func (a *app) explainRefusal(ctx context.Context, refusal *client.Refusal) (*report.Why, error) {
	e := report.NewWhy(refusal, a.now())
	err := a.readLedger(func(c *client.Client) error {
		a.warnOfLoss()
		if e.Refusal == nil {
			newest, err := report.NewestRefusal(ctx, c)
			if newest == nil || err != nil {
				return err
			}
			e = report.NewWhy(newest, a.now())
		}
		return e.ReadLedger(ctx, c)
	})
	exit, _ := code(err)
	switch isMissing := errors.Is(err, setup.ErrNoLedger); {
	case isMissing && refusal == nil:
		return e, nil
	case isMissing:
		e.SetReason("there is no ledger at " + a.setup().LedgerName())
		return e, nil
	case exit == exitLedger:
		e.SetReason(err.Error())
		return e, nil
	}
	return e, err
}

// whyText is why for people.
func (a *app) whyText(e *report.Why) {
	r := e.Refusal
	host := ""
	if r.Host != "" {
		host = " on " + human.Name(r.Host)
	}
	a.paragraph("refused  ", "%s, %s, at %s%s (%s ago)", human.Name(r.Method), human.Count(r.Units, "unit"),
		human.Time(r.At), host, human.Duration(e.At.Sub(r.At)))
	a.paragraph("for      ", "region %s, job %s, lane %s", human.Name(r.Region), human.Name(r.Job), human.Name(r.Lane))
	if r.Key != nil {
		a.paragraph("key      ", "%s", human.Name(*r.Key))
	}
	a.paragraph("because  ", "%s", r.Message)
	if e.Window != nil && len(e.ByMethod) > 0 {
		fmt.Fprintln(a.stdout)
		a.paragraph("", "%s, its window of %s then: %s, by", human.Name(*r.Budget), *e.Window, e.HeldText())
		t := a.table("", "who had spent it")
		inspect.EachDimension(&e.Attribution, r.Measure, 5, func(by, who string) { t.Row(by, who) })
		t.Print()
	}
	if e.Outside != nil {
		a.paragraph("\n", "%s", *e.Outside)
	}
	fmt.Fprintln(a.stdout, "\nwhat would have helped")
	for _, what := range e.Helped {
		a.paragraph("  ", "%s", what)
	}
	fmt.Fprintln(a.stdout)
	before, title := "now      ", "it would be refused: "
	switch {
	case e.Now.Granted == nil:
		title = "not known: "
	case *e.Now.Granted:
		fmt.Fprintln(a.stdout, before+"it would be granted")
	}
	for _, reason := range e.Now.Reasons {
		a.paragraph(before, "%s%s", title, reason)
		before = "         "
	}
}
