package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
)

func (a *app) alertCommand() *cobra.Command {
	test := &cobra.Command{
		Use:   "test",
		Short: "Send a test to each address of alert: in costs.yaml",
		Long: `Test sends a message to each webhook and command that costs.yaml names under
alert:, and says whom it reached. It exits 1 if one does not take it.

` + exitCodes(exitConfig),
		Example: "  ration alert test\n  ration alert test --config /etc/ration",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table, err := a.setup().Prices()
			if err != nil {
				return err
			}
			return a.withClient(table, true, func(c *client.Client) error {
				reached, err := a.setup().NewWatch(c, func(error) {}).Test(cmd.Context())
				for _, one := range reached {
					fmt.Fprintln(a.stdout, one)
				}
				if err == nil && len(reached) == 0 {
					return errors.New("costs.yaml has no alert: add one, such as alert: {command: ./page.sh}")
				}
				return err
			})
		},
	}
	return cli.Group(&cobra.Command{
		Use:   "alert",
		Short: "Try the alerts of costs.yaml",
		Long: `Alerts tell people what they should know about a budget, by a webhook or a
command that costs.yaml names under alert:. ration serve and proxy send them,
and run when it ends.

` + exitCodes(),
		Example: "  ration alert test\n  ration alert test --config /etc/ration",
	}, test)
}
