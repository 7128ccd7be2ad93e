package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/cooldown"
	"github.com/ration-dev/ration/costs/human"
)

func (a *app) restampCommand() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "restamp",
		Short: "Repair a log whose newest entries are stamped in the future",
		Long: `When the ledger's clock is ahead for a moment, the entries of that moment are
stamped in the future. So are all entries after them, because stamps never
decrease. They count against their budgets until the clock catches up, and
status, doctor and refusals say so. Restamp gives each of them the current time
and keeps their order; it adds and removes nothing. Correct the clock first: it
is the Redis server's, or this host's for a SQLite file.

A cooldown that was set for a duration in that moment then ends at most that
long from now. One that was set until a given time keeps that time. Restamp
lists the cooldowns in force, each with the command that lifts it.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger restamp\n  ration ledger restamp --account my-project --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.restamp(cmd.Context(), account) },
	}
	cmd.Flags().StringVar(&account, "account", "", "only this account's log (default all accounts of costs.yaml)")
	return cmd
}

func (a *app) restamp(ctx context.Context, account string) error {
	var at time.Time
	var still []cooldown.Report
	var done []client.Restamped
	err := a.withAccounts(account, false, func(c *client.Client, names []string) (err error) {
		if done, err = c.Restamp(ctx, names); err != nil {
			return err
		}
		at, still, err = cooldown.List(ctx, c.Guard(), names)
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(struct {
			Accounts []client.Restamped `json:"accounts"`
			Still    []cooldown.Report  `json:"still"` // what holds calls all the same
		}{done, still})
	}
	for _, d := range done {
		fmt.Fprintf(a.stdout, "%s: %s restamped\n", human.Name(d.Account), human.Count(d.Entries, "entry"))
	}
	cooldown.WriteStill(a.stdout, still, at)
	return nil
}
