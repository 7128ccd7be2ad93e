package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
)

// runFlags are what run may be told.
type runFlags struct {
	keyFile  string
	parallel int
	again    bool
	lane     string
	stopped  int // the exit code in place of exitStopped
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [REGION…]",
		Short: "Fetch what is missing of each region's current pass",
		Long: `Run fetches what is missing of each region's current pass, the one for the
latest tick of its schedule. Each page is saved together with a checkpoint. When
a budget is spent, the run ends cleanly and the next run resumes there. The API
key, which the YouTube steps need, comes from YOUTUBE_API_KEY or --key-file.
While the ledger is down, when_ledger_down in costs.yaml decides what may be
sent. What programs print goes to stderr (-q: not at all), with their region and
job.

Off a terminal a successful run prints nothing of its own, so that cron sends no
mail; otherwise it prints one line. -q also omits the line of a run that a
budget stopped, unless a step waits because it keeps failing.

` + exitCodes(exitStopped, exitLedger, exitConfig) + `

If regions end differently, the first of 78, 69, 1, 75, 0 applies. For a
scheduler that takes 75 for a failure, --stopped-exit 0 replaces it; nothing
else changes.`,
		Example: "  ration run\n  ration run IN BR --json\n  ration run IN --again --lane backfill",
		RunE: func(cmd *cobra.Command, names []string) error {
			if f.stopped < 0 || f.stopped > 255 {
				return &cli.Error{Err: fmt.Errorf("--stopped-exit %d: give 0 to 255", f.stopped)}
			}
			err := a.run(cmd.Context(), names, f)
			if exit, _ := code(err); exit != exitStopped {
				return err
			}
			a.exit(err) // prints it
			return &reported{&programError{f.stopped}}
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.keyFile, "key-file", "", "`file` that holds the API key")
	flags.IntVar(&f.parallel, "parallel", jobs.DefaultParallel, "fetch this many regions at a time")
	flags.BoolVar(&f.again, "again", false, "fetch finished passes again, and steps that wait after failures")
	flags.StringVar(&f.lane, "lane", jobs.Lane,
		"the lane of the calls: cron, backfill, manual, or another that costs.yaml names")
	a.defineShare(flags)
	flags.IntVar(&f.stopped, "stopped-exit", exitStopped, "end with this `code` if a budget or cooldown stops the run")
	return cmd
}

func (a *app) run(ctx context.Context, names []string, flags runFlags) error {
	if err := checkParallel(flags.parallel); err != nil {
		return err
	}
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	if err := checkLane(table, flags.lane); err != nil {
		return err
	}
	config, err := a.setup().Regions(table, flags.lane)
	if err != nil {
		return err
	}
	regions, err := jobs.Choose(config.Regions, names)
	if err != nil {
		return &cli.Error{Err: err}
	}
	if err := jobs.CheckPrograms(regions); err != nil {
		return err
	}
	key, err := a.setup().FetchKey(flags.keyFile, regions)
	if err != nil {
		return err
	}
	f, err := a.setup().OpenFetcher(ctx, table, config, key)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Client.CheckMove(ctx); err != nil {
		a.warn("ledger", err.Error())
	}
	showsDetails := a.terminal || a.verbose
	// cron would mail it for each run of a host that others are ahead of
	if err := f.Client.CheckReplica(ctx); err != nil && showsDetails {
		a.warn("replica", err.Error())
	}
	if a.verbose && !a.json {
		fmt.Fprintln(a.stderr, "ledger:", f.Client.LedgerName())
	}
	f.Runner.Parallel, f.Runner.Again = flags.parallel, flags.again
	f.Runner.Lane = flags.lane
	watch := a.setup().NewWatch(f.Client, func(err error) { a.warn("alert", err.Error()) })
	report, err := a.fetch(ctx, f, regions)
	if err != nil {
		return err
	}
	defer watch.Finish(ctx)
	if showsDetails && !a.json && !a.quiet {
		defer a.printLevels(ctx, f.Client)
	}
	a.warnUnfilled(usage.UpdateHistory(context.WithoutCancel(ctx), f.Catalog, f.Client, a.now()))
	return a.printRun(report, jobs.FetchesYouTube(regions))
}

// printLevels prints on stderr which levels budgets have crossed. It prints
// nothing if the ledger or the state folder cannot be read.
func (a *app) printLevels(ctx context.Context, c *client.Client) {
	marks, err := a.setup().LevelMarks()
	if err != nil {
		return
	}
	balances, err := c.Guard().Balances(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	for _, line := range marks.Crossed(balances) {
		fmt.Fprintln(a.stderr, "ration:", line)
	}
}

func checkParallel(n int) error {
	if n < 1 || n > 64 {
		return &cli.Error{Err: fmt.Errorf("--parallel %d: give 1 to 64", n)}
	}
	return nil
}

// checkLane is setup.CheckLane for --lane.
func checkLane(table *costs.Table, lane string) error {
	if err := setup.CheckLane(table, lane); err != nil {
		return &cli.Error{Err: fmt.Errorf("--%w", err)}
	}
	return nil
}

// fetch runs with progress bars where people watch, and forgets what is older
// than the retention.
func (a *app) fetch(ctx context.Context, f *setup.Fetcher, regions []jobs.Region) (*jobs.Report, error) {
	shown := &cli.Bars{}
	canShowBars := a.terminal && a.getenv("TERM") != "dumb"
	if canShowBars && !a.quiet && !a.json {
		shown = cli.StartBars(os.Stderr, regions, a.getenv("NO_COLOR") == "")
	}
	f.Runner.Progress = shown.Update
	f.Runner.Output = a.outputTo(shown)
	report, err := f.Runner.Run(ctx, regions)
	shown.Stop()
	if err != nil {
		return nil, err
	}
	if _, err := f.Catalog.Prune(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return report, nil
}

// printRun prints what a run did, and returns its error as one that
// was printed.
func (a *app) printRun(report *jobs.Report, hasVideos bool) error {
	err := report.Worst(rank)
	switch {
	case a.json:
		if err := a.writeJSON(report.Document(err, reason)); err != nil {
			return err
		}
	case a.terminal || a.verbose:
		a.reportTable(report, hasVideos)
	}
	if err == nil {
		return nil
	}
	exit, _ := code(err)
	isQuietStop := a.quiet && exit == exitStopped && !report.HasWaiting()
	if !a.json && !isQuietStop {
		fmt.Fprintln(a.stderr, "ration:", runLine(report, err, a.now()))
	}
	return &reported{err}
}

// rank orders the errors of regions. The first decides the exit code: a signal,
// else the first of 78, 69, 1 and 75.
func rank(err error) int {
	if as[*signalError](err) {
		return -1
	}
	exit, _ := code(err)
	return slices.Index([]int{exitConfig, exitLedger, exitFailed, exitStopped}, exit)
}

func reason(err error) *string {
	if err == nil {
		return nil
	}
	return new(cli.RedactMessage(err.Error()))
}

// reportTable is a run for people.
func (a *app) reportTable(report *jobs.Report, hasVideos bool) {
	headings, rows := report.Table(hasVideos, a.clock, cli.RedactMessage)
	t := a.table(headings...)
	for _, row := range rows {
		t.Row(row...)
	}
	t.Print()
	if down := a.setup().LedgerState().String(); down != "" {
		fmt.Fprintf(a.stdout, "\nledger  %s\n", down)
	}
}

// outputTo returns what gets the output of programs in run: lines on stderr,
// above the bars if there are any.
func (a *app) outputTo(shown *cli.Bars) func(jobs.OutputLine) {
	switch {
	case a.quiet:
		return nil
	case a.json:
		return daemon.LogOutput(a.logger())
	case shown.Shown():
		return func(l jobs.OutputLine) { shown.Log(a.secrets.Text(outputText(l))) }
	}
	out := cli.NewLocked(a.stderr)
	return func(l jobs.OutputLine) { fmt.Fprintln(out, outputText(l)) }
}

func outputText(l jobs.OutputLine) string {
	return l.Region + " " + l.Job + ": " + cli.RedactURLs(l.Text)
}
