package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/setup"
)

func (a *app) ledgerCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "ledger",
		Short: "Inspect, correct or move the ledger",
		Long: `The ledger records what was spent. Info describes it, reconcile corrects it to
match the upstream's console, and accept ends a disagreement with it. Copy moves
it to another file or server.

` + exitCodes(),
		Example: "  ration ledger info\n  ration ledger reconcile youtube-day --used 8700",
	}, a.ledgerInfoCommand(), a.reconcileCommand(), a.acceptCommand(), a.ledgerCopyCommand())
}

func (a *app) ledgerInfoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show which ledger is in use, what it holds, and its drift",
		Long: `Info shows which ledger the configuration names, its size, and for each account
the number of entries and the time of the oldest. Drift is what was recorded
late: what reconcile or the upstream's answers found missing, and what was sent
from the allowance while the ledger was down. Info never creates a ledger.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger info\n  ration ledger info --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ledgerInfo(cmd.Context()) },
	}
}

func (a *app) ledgerInfo(ctx context.Context) error {
	report := inspect.NewLedger(a.now())
	err := a.readLedger(func(c *client.Client) error {
		a.warnOfLoss()
		return report.Read(ctx, c)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		err = nil
	}
	if !a.isShowable(err) {
		return err
	}
	report.Address = a.setup().LedgerName()
	units, failed := a.setup().Known().Unrecorded()
	if report.Unrecorded = units; err == nil {
		err = failed
	}
	if a.json {
		return errors.Join(a.writeJSON(report), err)
	}
	a.ledgerTable(report, err)
	return err
}

func (a *app) ledgerTable(r *inspect.Ledger, err error) {
	fmt.Fprintln(a.stdout, a.ledgerLine(r.Address, r.Exists))
	a.outageLine(err)
	if r.Size != nil {
		fmt.Fprintf(a.stdout, "size    %d KB\n", (*r.Size+1023)/1024)
	}
	if len(r.Accounts) > 0 {
		fmt.Fprintln(a.stdout)
		t := a.table("account", "keeps", "entries", "calls", "units", "oldest", "newest")
		for _, l := range r.Accounts {
			t.Row(human.Name(l.Account), keepsText(l.Keeps), l.Entries, l.Calls, l.Units,
				a.clock(cli.TimeOrZero(l.Oldest)), a.clock(cli.TimeOrZero(l.Newest)))
		}
		t.Print()
	}
	drift := r.Drift()
	if len(drift) == 0 && err == nil { // a ledger that is down may have some
		drift = []string{"none known"}
	}
	if len(drift) > 0 {
		fmt.Fprintf(a.stdout, "\ndrift   %s\n", strings.Join(drift, "\n        "))
	}
}

func keepsText(s int64) string {
	if s == 0 {
		return "counts only"
	}
	return human.Duration(time.Duration(s) * time.Second)
}
