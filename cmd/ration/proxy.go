package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
)

func (a *app) proxyCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Guard programs in any language through a local HTTP gateway",
		Long: `Proxy serves the gateway in the foreground: programs send their requests to
RATION_URL/to/HOST/PATH, where they are charged, sent on or refused, or ask with
POST /v1/spend before they call by themselves. It needs only costs.yaml. It
prints one line once it accepts requests. docs/gateway.md describes the gateway.

Every program of this host may use a loopback address or a socket, unless there
is a token. Any other address needs one.

While the ledger is down it answers 503, or grants within when_ledger_down. On
SIGHUP it reloads costs.yaml, and keeps the old one if the file is invalid or
names another ledger. On SIGTERM or SIGINT it answers the requests in flight,
for up to --grace, and exits 0.

` + exitCodes(exitConfig) + `

Once started, it exits only with 0.`,
		Example: `  ration proxy
  ration proxy --listen 0.0.0.0:8377 --host ration.internal --token-file /srv/ration/token
  ration proxy --listen unix:/run/ration/gateway.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.proxy(cmd.Context(), &f)
		},
	}
	f.define(cmd)
	cli.SecondsVar(cmd.Flags(), &f.grace, "grace", "how long to wait for requests in flight when stopping")
	return cmd
}

func (a *app) proxy(ctx context.Context, f *listenFlags) error {
	o, stop := a.daemonOptions(f.grace)
	defer stop()
	return daemon.Proxy(ctx, o, &f.GatewayOptions)
}
