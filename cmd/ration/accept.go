package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
)

func (a *app) acceptCommand() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept the ledger's clock and this configuration's limits",
		Long: `Accept ends two kinds of disagreement.

A ledger whose clock is more than five minutes ahead of this host's decides
nothing, unless its log has an entry as recent as that: one of the two clocks is
wrong, and if it is the ledger's, what is used would be free again. Accept says
that the ledger's is right, by a remark of 0 units at the ledger's time. That
lasts for as long as the ledger is in use, and five minutes longer: correct this
host's clock meanwhile. If the ledger's clock is the wrong one, correct it, and
do not accept it.

Where another configuration has asked for a lower limit of a budget within a
day, that limit holds. Accept forgets what other configurations have asked: the
limits of costs.yaml hold from then on, until another one asks again.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger accept\n  ration ledger accept --account my-project --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.accept(cmd.Context(), account) },
	}
	cmd.Flags().StringVar(&account, "account", "", "only this account's log (default all accounts of costs.yaml)")
	return cmd
}

func (a *app) accept(ctx context.Context, account string) error {
	var accepted []string
	err := a.withAccounts(account, func(c *client.Client, names []string) error {
		accepted = names
		for _, name := range names {
			if err := c.Guard().AcceptClock(ctx, name); err != nil {
				return err
			}
			if err := c.Guard().AcceptLimits(ctx, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(struct {
			Accounts []string `json:"accounts"`
		}{accepted})
	}
	for _, name := range accepted {
		fmt.Fprintf(a.stdout, "%[1]s: the ledger's clock is accepted\n%[1]s: the limits of this configuration hold\n", human.Name(name))
	}
	return nil
}
