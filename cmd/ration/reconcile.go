package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/usage"
)

func (a *app) reconcileCommand() *cobra.Command {
	var account, used string
	var force bool
	cmd := &cobra.Command{
		Use:   "reconcile BUDGET --used N | BUDGET=N…",
		Short: "Correct budgets to what the upstream's console counted",
		Long: `Reconcile compares budgets with what the upstream's console says was used, and
records what is missing as a correction (lane manual, job reconcile), which is
not a call. Every budget that covers a correction counts it, and it leaves their
windows with time, as other entries do. status and ledger info show such drift.

Give budgets that share calls together, in any order, such as the one for all
units and the one for searches. Each then holds its number, and no unit is
recorded twice. If a budget was reconciled before in its current window, a
correction that would change it is refused until its number is given too.

Compare a console with a budget whose window is the day in the upstream's own
zone. For a sliding window, N is what was used in the trailing time.

A console that shows less than the ledger is often only late, by minutes or
more, and a number above the limit is often a typo. Both need --force. To lower
a budget, reconcile takes units off the newest notes, corrections and calls of
its window, at most 256 entries back, and says how far it got. From a budget
that counts calls it takes off whole calls, with their units.

` + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: "  ration ledger reconcile youtube-day --used 8700\n  ration ledger reconcile youtube=8700 " +
			"youtube-day=8700 youtube-search=800",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reconcile(cmd.Context(), args, used, account, force)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&used, "used", "",
		"what the upstream's console says was used in the budget's window, `N`; of usd, dollars")
	flags.StringVar(&account, "account", "", "the budgets' account, if several accounts have a budget of that name")
	flags.BoolVar(&force, "force", false, "allow lowering a budget, and numbers above its limit")
	return cmd
}

func (a *app) reconcile(ctx context.Context, args []string, used, account string, force bool) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	account, readings, err := cli.Readings(table, args, used, account)
	if err != nil {
		return err
	}
	var results []usage.Correction
	err = a.withClient(table, true, func(c *client.Client) (err error) {
		results, err = usage.Reconcile(ctx, c.Guard(), account, readings, force)
		return err
	})
	if rejected, ok := errors.AsType[*usage.RejectedError](err); ok && rejected.NeedsForce {
		return fmt.Errorf("%w; if the console is right, add --force", err)
	}
	if err != nil {
		return err
	}
	switch {
	case a.json && len(results) == 1:
		return a.writeJSON(results[0])
	case a.json:
		return a.writeJSON(map[string]any{"account": account, "budgets": results})
	}
	for i := range results {
		fmt.Fprintln(a.stdout, results[i].Describe())
	}
	return nil
}
