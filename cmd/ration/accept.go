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
	var loss bool
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept the ledger's clock, this configuration's limits, or a loss",
		Long: `Accept ends two kinds of disagreement, and with --loss a third.

A ledger whose clock is more than five minutes ahead of this host's decides
nothing, unless its log has an entry as recent as that: one of the two clocks is
wrong, and if it is the ledger's, what is used would be free again. Accept says
that the ledger's is right, by a remark of 0 units at the ledger's time. That
lasts while the ledger is in use, and five minutes longer: correct this host's
clock meanwhile. If the ledger's is the wrong one, correct it instead. The clock
of a SQLite ledger is its host's: one that was set ahead, and is right now, is
accepted for good.

Where another configuration has asked for a lower limit of a budget within a
day, that limit holds. Accept forgets what other configurations have asked: the
limits of costs.yaml hold from then on, until another one asks again.

With --loss, what the ledger holds now is all that counts: hosts restore nothing
older, and record no older calls of an outage; notes about others' calls go. It
is for a ledger that was emptied on purpose: the upstream still counts them.

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
		fmt.Fprintf(a.stdout, "%[1]s: the ledger's clock is accepted\n%[1]s: the limits of this configuration hold\n", human.Name(name))
		if loss {
			fmt.Fprintf(a.stdout, "%s: what the ledger held is all that counts\n", human.Name(name))
		}
	}
	return nil
}
