package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
)

// planFlags are what plan may be told.
type planFlags struct {
	days           int
	from, at       string
	jitter         time.Duration
	fresh, suggest bool
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Simulate the coming days of the schedule against the budgets",
		Long: `Plan simulates every tick of regions.yaml over the coming days against the
budgets of costs.yaml, with the guard and the ledger code that run uses and a
simulated clock. It starts from what the ledger holds now, or with --fresh from
an empty ledger, and writes nothing.

PEAK is the most that a budget's window holds when every pass starts on time.
LATE is the most it can hold when each pass starts up to --jitter late,
independently of the others. The schedule fits if LATE is within every limit and
no call is refused. Both count everything that the schedule requests, all pages
of each step, refused or not.

REFUSED counts the refused calls and those dropped with them. A pass spends its
calls at the time of its tick, and no call waits. When a call is refused, the
rest of its step is dropped until the next tick. Plan does not continue a pass
that is in progress now, and does not repeat ticks before the start.

` + exitCodes(exitMisfit, exitLedger, exitConfig),
		Example: "  ration plan\n  ration plan --fresh --days 30 --json\n  ration plan --suggest",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), &f) },
	}
	f.define(cmd.Flags())
	cmd.Flags().StringVar(&f.at, "at", "", "use this `time` as now (RFC 3339)")
	return cmd
}

func (f *planFlags) define(flags *pflag.FlagSet) {
	flags.IntVar(&f.days, "days", 2, "simulate this many `days` of 24 hours")
	flags.StringVar(&f.from, "from", "",
		"start at this `time` (RFC 3339; default now); ticks before it are not simulated")
	f.jitter = 5 * time.Minute
	cli.SecondsVar(flags, &f.jitter, "jitter", "how late each pass may start")
	flags.BoolVar(&f.fresh, "fresh", false, "start from an empty ledger")
	flags.BoolVar(&f.suggest, "suggest", false, "propose a schedule that fits, with small changes")
}

// misfitError says that the schedule does not fit.
type misfitError struct{}

func (misfitError) Error() string { return "the schedule does not fit" }

const (
	maxPlanDays   = 366
	maxPlanJitter = 7 * 24 * time.Hour
)

// span returns when the plan begins, and now; zero is the clock's time.
func (f *planFlags) span() (from, now time.Time, err error) {
	if f.days < 1 || f.days > maxPlanDays {
		return from, now, &cli.Error{Err: fmt.Errorf("--days %d: give 1 to %d", f.days, maxPlanDays)}
	}
	if f.jitter < 0 || f.jitter > maxPlanJitter || f.jitter%time.Microsecond != 0 {
		return from, now, &cli.Error{Err: fmt.Errorf("--jitter %s: give 0 to %s, in whole microseconds", f.jitter,
			human.Duration(maxPlanJitter))}
	}
	read := func(flag, text string) time.Time {
		if text == "" || err != nil {
			return time.Time{}
		}
		var at time.Time
		if at, err = cli.ParseTime(flag, text, cli.LastNowYear); err == nil && at.Year() < 1971 {
			err = &cli.Error{Err: fmt.Errorf("%s %q: write a time such as 2026-11-20T09:00:00Z", flag, text)}
		}
		return at
	}
	now, from = read("--at", f.at), read("--from", f.from)
	return from.Truncate(time.Microsecond), now, err
}

func (a *app) plan(ctx context.Context, f *planFlags) error {
	from, now, err := f.span()
	if err != nil {
		return err
	}
	if !now.IsZero() {
		a.now, a.fixed = func() time.Time { return now }, true
	}
	table, config, err := a.setup().PricesAndRegions()
	if err != nil {
		return err
	}
	p := f.newPlanner(from, a.now(), table, config)
	if err := a.planState(ctx, p, table); err != nil {
		return err
	}
	if err := f.play(ctx, p); err != nil {
		return err
	}
	if a.json {
		err = a.writeJSON(p.Document(a.verbose))
	} else {
		err = a.planTables(p)
	}
	if err == nil && !p.Report.Fits {
		return &reported{misfitError{}}
	}
	return err
}

func (f *planFlags) newPlanner(from, now time.Time, table *costs.Table, config *jobs.Config) *plan.Planner {
	p := plan.NewPlanner(table, config.Regions, from, now)
	p.Jitter, p.Fresh = f.jitter, f.fresh
	return p
}

// play plays the plan from what the ledger holds.
func (f *planFlags) play(ctx context.Context, p *plan.Planner) error {
	err := p.Play(ctx, f.days, f.suggest)
	if ctx.Err() != nil {
		return context.Cause(ctx) // which says by what signal
	}
	if errors.Is(err, plan.ErrTooLong) {
		advice := "plan fewer days"
		if f.days == 1 {
			advice = "plan a regions.yaml with fewer ticks, regions, pages or calls"
		}
		return &cli.Error{Err: fmt.Errorf("--days %d: more than %d calls; %s", f.days, plan.MaxCalls, advice)}
	}
	return err
}

// planState reads what the ledger holds at the start.
func (a *app) planState(ctx context.Context, p *plan.Planner, table *costs.Table) error {
	if p.Fresh {
		return nil
	}
	err := a.withClient(table, false, func(c *client.Client) error { a.warnOfLoss(); return readPlanState(ctx, p, c) })
	if errors.Is(err, setup.ErrNoLedger) {
		p.Ledger = a.setup().LedgerName()
		p.Unrecorded, err = a.setup().Known().Unrecorded()
	}
	return err
}

// readPlanState reads what the ledger of c holds, and what it lacks.
func readPlanState(ctx context.Context, p *plan.Planner, c *client.Client) error {
	p.Ledger = c.LedgerName()
	err := p.ReadState(ctx, c.Guard())
	if err == nil {
		p.Unrecorded, err = c.Unrecorded()
	}
	return err
}
