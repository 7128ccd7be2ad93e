package main

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/daemon"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/jobs/shadow"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/metrics"
)

func (a *app) metricsCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print what is left as metrics for Prometheus",
		Long: `Metrics prints the budgets, cooldowns and the journal of this host in the text
format of Prometheus. With --out it replaces a file at once, for the textfile
collector of node_exporter; every user may read the file.

Counters of decisions belong to processes that run on: serve and proxy show them
at /metrics. While the ledger is down, metrics prints what it knows and exits
69. docs/observe/README.md lists the metrics, alert rules and a dashboard.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration metrics\n  ration metrics --out /var/lib/prometheus/node-exporter/ration.prom",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.metrics(out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "write to this `file` instead of stdout")
	return cmd
}

func (a *app) metrics(out string) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	err = a.withClient(table, false, func(c *client.Client) error {
		return a.writeMetrics(out, metrics.New(c.Guard(), daemon.MetricsOptions(table, c)), &shadow.Collector{Client: c})
	})
	if !errors.Is(err, setup.ErrNoLedger) {
		return err
	}
	unspent, err := quota.NewGuard(memledger.Open(nil), table.Budgets(), nil)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	return a.writeMetrics(out, metrics.New(unspent, daemon.MetricsOptions(table, nil)))
}

// writeMetrics writes what collectors show to a file, or to stdout. It returns
// the ledger's error too.
func (a *app) writeMetrics(out string, c *metrics.Collector, more ...prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, c)...)
	if out != "" {
		if err := prometheus.WriteToTextfile(out, registry); err != nil { // a new file, renamed: it follows no link
			return fmt.Errorf("--out: %w", err)
		}
		return c.Err()
	}
	families, err := registry.Gather()
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(a.stdout, family); err != nil {
			return err
		}
	}
	return errors.Join(err, c.Err())
}
