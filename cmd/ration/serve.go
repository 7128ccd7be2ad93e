package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
)

// serveFlags are what serve may be told.
type serveFlags struct {
	daemon.Schedule
	listen listenFlags
	noPage bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run each region's passes on schedule, as a daemon",
		Long: `Serve runs the same passes as run, at the ticks of their schedules, and stays in
the foreground. When it starts, it resumes the unfinished pass of each region's
current tick and ignores older ticks. A pass that a budget or a cooldown stopped
resumes at the time the refusal gave; serve makes no call for it before. While
the ledger is down, serve retries at growing intervals and does not exit.

It logs a line for each pass to stderr (-q: only problems, -v: more, --json: as
JSON). It reads the key file for each request. On SIGHUP it reloads both other
files, and logs what changed. If a file is invalid or names another ledger,
serve reports that and keeps the old configuration; moving to another ledger
takes a restart. On SIGTERM or SIGINT it waits up to --grace for pages in flight
and programs, saves what is done, and exits 0. Under systemd it uses sd_notify
and the watchdog: see docs/running.md.

It also serves the gateway for programs in other languages, as proxy does
(--listen none: it does not). At / of the gateway is a page that shows budgets,
charts and the log (--no-page: it is left out). If another program has the usual
port, serve warns and goes on without a gateway.

` + exitCodes(exitConfig) + `

Once started, it exits only with 0.`,
		Example: "  ration serve --key-file /srv/ration/key\n  ration serve --jitter 5m --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.KeyFile, "key-file", "", "`file` that holds the API key")
	flags.IntVar(&f.Parallel, "parallel", jobs.DefaultParallel, "fetch this many regions at a time")
	f.Jitter = 30 * time.Second
	cli.SecondsVar(flags, &f.Jitter, "jitter",
		"delay each start by less than this, each region differently; 0 starts on time")
	f.listen.optional = true
	f.listen.define(cmd)
	flags.BoolVar(&f.noPage, "no-page", false, "show no page at / of the gateway")
	cli.SecondsVar(flags, &f.listen.grace, "grace", "how long to wait for pages and requests in flight when stopping")
	return cmd
}

func (f *serveFlags) check(cmd *cobra.Command) error {
	if f.Jitter < 0 || f.Jitter > time.Hour {
		return &cli.Error{Err: fmt.Errorf("--jitter %s: give 0 to 1h", human.Exactly(f.Jitter))}
	}
	if err := f.listen.check(cmd); err != nil {
		return err
	}
	return checkParallel(f.Parallel)
}

func (a *app) serve(ctx context.Context, cmd *cobra.Command, flags *serveFlags) error {
	if err := flags.check(cmd); err != nil {
		return err
	}
	o, stop := a.daemonOptions(flags.listen.grace)
	defer stop()
	flags.Optional = !flags.listen.asked
	flags.Search = a.searchDocument
	flags.WhyStopped = whyStopped
	if flags.listen.Address != noAddress {
		flags.Gateway = &flags.listen.GatewayOptions
		flags.Gateway.Page = !flags.noPage
	}
	return daemon.Serve(ctx, o, &flags.Schedule)
}
