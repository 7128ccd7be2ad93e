package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Watch eight regions share one budget; needs no setup",
		Long: `Demo starts a local YouTube on a loopback port, with a ledger and a catalogue in
a temporary folder, and plays two acts. In the first, eight regions fetch within
their budget. In the second, the budget is too small: the run stops cleanly, and
the next run fetches the rest. It needs no key, configuration or network.

` + exitCodes(),
		Example: "  ration demo\n  ration demo -v",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
}

func (a *app) demo(ctx context.Context) error {
	if a.json {
		return &cli.Error{Err: errors.New("--json: the demo is a text for people; leave it out")}
	}
	dir, err := os.MkdirTemp(a.getenv("TMPDIR"), "ration-demo-")
	if err != nil {
		return err
	}
	if err := (&setup.Demo{Dir: dir, Say: a.printf, NewStage: a.newStage}).Play(ctx); err != nil {
		return err
	}
	a.next(dir)
	return nil
}

// next says what to try with the folder that the demo leaves.
func (a *app) next(dir string) {
	program := "ration"
	if strings.Contains(os.Args[0], "go-build") { // go run
		program = "go run ./cmd/ration"
	}
	a.printf("\nTry next:")
	for _, command := range []string{"status", "log --last 10", "search music --region IN"} {
		fmt.Fprintf(a.stdout, "  %s --config %s --state %s %s\n", program, dir, dir, command)
	}
}

func (a *app) printf(format string, args ...any) { a.paragraph("", format, args...) }

// stage is an app in one folder of the demo, whatever the environment says.
type stage struct{ app }

func (a *app) newStage(dir, address string) setup.Stage {
	stage := &stage{*a}
	stage.place = nil
	stage.configDir, stage.stateDir = dir, dir
	stage.endpoint = address
	stage.ledgerURL = ""
	stage.json, stage.quiet = false, false
	stage.getenv = func(name string) string {
		if strings.HasPrefix(name, "RATION_") {
			return ""
		}
		return a.getenv(name)
	}
	return stage
}

// Act implements setup.Stage.
func (a *stage) Act(ctx context.Context) error {
	table, config, err := a.setup().PricesAndRegions()
	if err != nil {
		return err
	}
	f, err := a.setup().OpenFetcher(ctx, table, config, func() (string, error) { return "demo-key", nil })
	if err != nil {
		return err
	}
	defer f.Close()
	f.Runner.Parallel = len(config.Regions)
	report, err := a.fetch(ctx, f, config.Regions)
	if err != nil {
		return err
	}
	return a.review(report)
}

// ShowStatus implements setup.Stage.
func (a *stage) ShowStatus(ctx context.Context) error { return a.status(ctx) }

// Held implements setup.Stage.
func (a *stage) Held(ctx context.Context) (held quota.Units, err error) {
	err = a.readLedger(func(c *client.Client) error {
		balances, err := c.Guard().Balances(ctx)
		if err == nil {
			held = balances[0].Used
		}
		return err
	})
	return held, err
}

// review prints a run's table and, when it broke, its line.
func (a *app) review(report *jobs.Report) error {
	a.reportTable(report, true)
	a.printf("")
	err := report.Worst(rank)
	if err != nil {
		a.printf("ration: %s", runLine(report, err, a.now()))
	}
	return err
}
