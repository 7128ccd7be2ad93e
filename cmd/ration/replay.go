package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

func (a *app) replayCommand() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "replay COSTS.yaml",
		Short: "Say which calls of the log another costs.yaml would have refused",
		Long: `Replay plays the log against the budgets of another costs.yaml, with the guard
and the ledger code that run uses and a simulated clock. It writes nothing, and
says which calls would have been refused, by budget, hour and region.

Each call is charged what the other file says it costs. If the log has settled
or refunded it, the replay does so before the next call, in the same proportion
or, if the upstream's answers say what calls cost, to the log's amount. A call
that was spent with --units for more is charged that. A refused call is not
spent in the replay. Notes, corrections and what was spent before --since count,
and are not refused. Budgets with shadow: true refuse nothing, and are listed
with what they would have refused.

Calls that were refused are in no log. Cooldowns are the upstream's own answers
and stop the same calls whatever costs.yaml says, so they are not replayed; one
that is in force is named. In named measures, a call asks for what it cost. The
ledger is that of costs.yaml; the other file need not name one.

` + strings.Replace(exitCodes(exitMisfit, exitLedger, exitConfig),
			"it does not fit, even if --suggest finds a schedule that does", "calls would have been refused", 1),
		Example: "  ration replay new-costs.yaml\n  ration replay new-costs.yaml --since 24h --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &replaying{app: a, path: args[0]}
			var err error
			if r.Since, err = cli.ParseMoment("--since", since, a.now()); err != nil {
				return err
			}
			if r.Until, err = cli.ParseMoment("--until", until, a.now()); err != nil {
				return err
			}
			if !r.Until.IsZero() && !r.Since.Before(r.Until) {
				return &cli.Error{Err: errors.New("--until is not after --since")}
			}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&since, "since", "7d",
		"replay calls of the last `period` (24h, 7d), or since a time (RFC 3339); 0 means all")
	cmd.Flags().StringVar(&until, "until", "", "only calls before this time (RFC 3339), or older than a `period`")
	return cmd
}

// replaying is a replay on its way.
type replaying struct {
	*app
	plan.LogReplay
	path string // of Other
}

func (r *replaying) run(ctx context.Context) error {
	var err error
	if r.InForce, err = r.setup().Prices(); err != nil {
		return err
	}
	if r.Other, err = r.setup().OtherPrices(r.path); err != nil {
		return err
	}
	missing, err := r.Missing(r.path)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	if len(missing) > 0 {
		r.warn("config", fmt.Sprintf("%s has no account %s, whose calls are not replayed", human.Name(r.path),
			strings.Join(missing, ", ")))
	}
	report, exists := r.Unspent(), true
	err = r.withClient(r.InForce, false, func(c *client.Client) error {
		if report, err = r.Play(ctx, c.Guard()); err != nil {
			return err
		}
		return r.printRemarks(ctx, c)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		exists, err = false, nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	document := r.Document(r.now(), report)
	document.Ledger, document.LedgerExists = r.setup().LedgerName(), exists
	document.Costs = r.path
	if r.json {
		err = r.writeJSON(document)
	} else {
		r.tables(document, report)
	}
	if err == nil && !document.Fits {
		return &reported{misfitError{}}
	}
	return err
}

// printRemarks says what the replay does not show: calls that a cooldown
// refused, and those that the ledger has dropped.
func (r *replaying) printRemarks(ctx context.Context, c *client.Client) error {
	if err := r.noteCooldowns(ctx, c.Guard()); err != nil {
		return err
	}
	source := &usage.LogReader{Guard: c.Guard(), Accounts: r.Other.Accounts(), Since: r.Since}
	v := &cli.LogView{Query: &cli.LogQuery{}, Source: source, Remark: r.remark, Now: r.now}
	return v.NoteMissing(ctx, c.Guard())
}

// noteCooldowns lists cooldowns in force, if the range reaches until now.
func (r *replaying) noteCooldowns(ctx context.Context, guard *quota.Guard) error {
	if !r.Until.IsZero() && !r.Until.After(r.now()) {
		return nil
	}
	_, held, err := report.ListCooldowns(ctx, guard, r.InForce.Accounts())
	for _, c := range held {
		if moves := c.Moves(); moves != "" {
			r.remark("replay", "%s", moves)
			continue
		}
		name := human.Name(c.Account)
		if c.Budget != nil {
			name = human.Name(*c.Budget)
		}
		r.remark("replay",
			"a cooldown holds back %s until %s; calls that it refused are not in the log, and are not replayed", name,
			human.Time(c.Until))
	}
	return err
}

// maxReplayRows is the most hours that the table shows; JSON has all.
const maxReplayRows = 50

func (r *replaying) tables(d *plan.ReplayDocument, report *plan.ReplayReport) {
	fmt.Fprintln(r.stdout, r.ledgerLine(d.Ledger, d.LedgerExists))
	fmt.Fprintf(r.stdout, "costs   %s\n\n", human.Name(d.Costs))
	t := r.table("budget", "limit", "", "window", "refused", "units", "first", "last")
	for i := range report.Budgets {
		b := &report.Budgets[i]
		window := b.Budget.Window.String()
		if b.Budget.Shadow {
			window += " (shadow)"
		}
		t.Row(report.Name(&b.Budget), b.Budget.Measure.Number(b.Budget.Limit), b.Budget.Measure, window, b.Refused,
			b.RefusedUnits, r.clock(b.First), r.clock(b.Last))
	}
	t.Print()
	if len(d.Refusals) > 0 {
		fmt.Fprintln(r.stdout)
		t := r.table("hour", "budget", "region", "refused", "units")
		for _, hour := range d.Refusals[:min(len(d.Refusals), maxReplayRows)] {
			t.Row(human.Dated(hour.Hour, r.now(), "01-02 15:04Z"),
				report.Name(&quota.Budget{Account: hour.Account, Name: hour.Budget}), human.Name(hour.Region),
				hour.Refused, hour.Units)
		}
		t.Print()
		if more := len(d.Refusals) - maxReplayRows; more > 0 {
			fmt.Fprintf(r.stderr, "%s are not shown; --json has all\n", human.Count(more, "later row"))
		}
	}
	fmt.Fprintln(r.stdout)
	if d.Fits {
		r.paragraph("", "fits: of %s, %s, nothing would have been refused", human.Count(d.Calls, "call"),
			human.Count(d.Units, "unit"))
		return
	}
	r.paragraph("", "does not fit: of %s, %s, %d would have been refused, %s", human.Count(d.Calls, "call"),
		human.Count(d.Units, "unit"), d.Refused, human.Count(d.RefusedUnits, "unit"))
}
