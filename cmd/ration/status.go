package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/setup"
)

func (a *app) statusCommand() *cobra.Command {
	var at string
	var web, noOpen bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is left, who spent the rest, and when it returns",
		Long: `Status shows the limit of each budget, what is used and what is left, who spent
it, and when the units return: what returns first, and of the rest those that
return within a minute, or a 60th of a shorter window, together, at the time of
the last. It says when a budget runs out: at the pace of the last hours, and by
the schedule of regions.yaml within two days, if there is one. It also shows
cooldowns, the passes that a host has claimed or another host has done, and the
ten fullest keys of accounts with keyed calls. While the ledger is down, status
shows what it knows and exits 69. It never creates a ledger, and says so if
there is none yet.

With --at after now it shows what that time will find if nothing more is spent.
With --at before the newest entry it shows what a clock set back to that time
would find.

With --web it shows this, charts and the log as a page that stays current: it
prints the URL on stderr, opens the browser where it can, and ends on Ctrl-C.
ration serve has the same page.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration status\n  ration status --json\n  ration status --web",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case web && (at != "" || a.json):
				return &cli.Error{Err: errors.New("--web: leave out --at and --json; the page shows the present, " +
					"and has links to JSON")}
			case noOpen && !web:
				return &cli.Error{Err: errors.New("--no-open is for --web")}
			case web:
				return a.statusPage(cmd.Context(), !noOpen)
			}
			if err := a.setNow(at); err != nil {
				return err
			}
			return a.status(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show the status as of this `time` (RFC 3339)")
	cmd.Flags().BoolVar(&web, "web", false, "show a page in the browser, until Ctrl-C")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "with --web, only print its URL")
	return cmd
}

func (a *app) status(ctx context.Context) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	report, shown := inspect.NewReport(a.now()), false
	err = a.withClient(table, false, func(c *client.Client) error {
		err := report.Read(ctx, a.setup(), c)
		if report.Unplanned != nil && !isLedgerError(report.Unplanned) {
			a.warn("forecast", "status does not forecast by the schedule: "+report.Unplanned.Error())
		}
		if err != nil {
			return err
		}
		a.warnOfSpelling(ctx, c)
		report.Forgotten, shown = a.warnOfLoss(), true
		return a.showStatus(ctx, report, nil)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		err = nil
		report.AddUnspent(table)
		report.Forgotten = a.forgotten
	}
	if shown || !a.isShowable(err) {
		return err
	}
	return a.showStatus(ctx, report, err)
}

// showStatus prints a report, which is whole if err is nil, and returns err.
func (a *app) showStatus(ctx context.Context, report *inspect.Report, err error) error {
	if failed := report.AddHost(a.setup().Known()); err == nil {
		err = failed // of this host's copy: the rest is right
	}
	if err == nil {
		if empty, ok := errors.AsType[*client.EmptyLedgerError](a.setup().Known().CheckEmpty(ctx)); ok {
			a.warn("ledger", empty.Error())
		}
	}
	var unread error
	if report.Waiting, unread = inspect.WaitingSteps(ctx, a.setup()); unread != nil {
		a.warn("catalogue", "the catalogue cannot be read, so status does not show which steps wait: "+unread.Error())
	}
	if a.json {
		report.Version = cli.ReadBuild().Version
		return errors.Join(a.writeJSON(report), err)
	}
	a.statusTable(report.Distinct(), err)
	return err
}

// unrecordedNote says what was sent while the ledger could not be asked.
func (a *app) unrecordedNote() string {
	if units := a.setup().LedgerState().Unrecorded; units != nil && *units > 0 {
		return fmt.Sprintf("; meanwhile %s %s sent within the allowance", human.Count(*units, "unit"),
			human.Was(*units))
	}
	return ""
}

// warnUnfilled says that the history is not up to date.
func (a *app) warnUnfilled(err error) {
	if err != nil {
		a.warn("history", "the history is not up to date: "+err.Error())
	}
}
