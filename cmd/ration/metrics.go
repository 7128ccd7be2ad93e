package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func (a *app) metricsCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print what is left as metrics for Prometheus",
		Long: `Metrics prints the budgets, the cooldowns and what this host knows beside the
ledger in the text format of Prometheus. With --out it replaces a file at once,
for the textfile collector of node_exporter; every user may read the file.

Counters of decisions belong to processes that run on: serve and proxy show them
at /metrics. While the ledger is down, metrics prints what it knows and exits
69. docs/observe/README.md lists the metrics, alert rules and a dashboard.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration metrics\n  ration metrics --out /var/lib/prometheus/node-exporter/ration.prom",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.metrics(out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this `file` instead of stdout")
	return cmd
}

func (a *app) metrics(out string) error {
	if a.json {
		return &cli.Error{Err: errors.New("--json: metrics are in the text format of Prometheus; leave it out, or " +
			"use ration status --json")}
	}
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	err = a.withClient(table, false, func(c *client.Client) error {
		return metrics.New(c.Guard(), daemon.MetricsOptions(table, c)).Write(a.stdout, out,
			&plan.ShadowCollector{Client: c})
	})
	if !errors.Is(err, setup.ErrNoLedger) {
		return err
	}
	unspent, err := quota.NewGuard(memledger.Open(nil), table.Budgets(), nil)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	return metrics.New(unspent, daemon.MetricsOptions(table, nil)).Write(a.stdout, out)
}
