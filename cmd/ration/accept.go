package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
)

func (a *app) acceptCommand() *cobra.Command {
	var account string
	var loss bool
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept this configuration's limits, or a loss",
		Long: `Accept ends a disagreement about limits, and with --loss one about a loss.

Where another configuration has asked for a lower limit of a budget within a
day, that limit holds. Accept forgets what other configurations have asked: the
limits of costs.yaml hold from then on, until another one asks again.

With --loss, what the ledger holds now is all that counts: hosts restore nothing
older, and record no older calls of an outage. It is for a ledger that was
emptied on purpose: the upstream still counts them.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger accept\n  ration ledger accept --account my-project --loss",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.accept(cmd.Context(), account, loss) },
	}
	cmd.Flags().StringVar(&account, "account", "", "only this account's log (default all accounts of costs.yaml)")
	cmd.Flags().BoolVar(&loss, "loss", false, "also give up what the ledger has forgotten")
	return cmd
}

func (a *app) accept(ctx context.Context, account string, loss bool) error {
	var accepted []string
	err := a.withAccounts(account, loss, func(c *client.Client, names []string) error { // the ledger itself may be lost
		accepted = names
		return c.Accept(ctx, names, loss)
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
		fmt.Fprintf(a.stdout, "%s: the limits of this configuration hold\n", human.Name(name))
		if loss {
			fmt.Fprintf(a.stdout, "%s: what the ledger held is all that counts\n", human.Name(name))
		}
	}
	return nil
}
