package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

//go:embed demo
var demoFiles embed.FS

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
	dir, err := os.MkdirTemp(a.getenv("TMPDIR"), "ration-demo-")
	if err != nil {
		return err
	}
	upstream := youtubetest.New(&youtubetest.Options{Latency: 40 * time.Millisecond})
	server, address, err := serve(upstream)
	if err != nil {
		return err
	}
	defer server.Close()
	a.say("A local YouTube listens on %s. Everything else is in %s.", address, dir)

	if err := a.enough(ctx, dir, address, upstream); err != nil {
		return err
	}
	if err := a.tooLittle(ctx, filepath.Join(dir, "small"), address, upstream); err != nil {
		return err
	}
	a.next(dir)
	return nil
}

// enough is the first act: the budget pays for all eight regions.
func (a *app) enough(ctx context.Context, dir, address string, upstream *youtubetest.Server) error {
	a.say("\nAct 1: eight regions, one budget of 9500 units\n")
	stage, err := a.stage(dir, "", address)
	if err != nil {
		return err
	}
	if err := stage.act(ctx); err != nil {
		return err
	}
	if err := stage.status(ctx); err != nil {
		return err
	}
	held, err := stage.held(ctx)
	if err != nil {
		return err
	}
	if int64(held) != upstream.Total() {
		return fmt.Errorf("the upstream counted %s, the ledger holds %d; please report this", human.Count(upstream.Total(), "unit"), held)
	}
	a.say("\nThe upstream counted %s; the ledger holds the same.", human.Count(upstream.Total(), "unit"))
	return nil
}

// tooLittle is the second act: the run breaks, and the next one fetches the rest.
func (a *app) tooLittle(ctx context.Context, dir, address string, upstream *youtubetest.Server) error {
	a.say("\nAct 2: the same charts on a budget of 15 units every six seconds\n")
	before := len(upstream.Arrivals())
	stage, err := a.stage(dir, "small-", address)
	if err != nil {
		return err
	}
	err = stage.act(ctx)
	if !errors.Is(err, quota.ErrRefused) {
		return fmt.Errorf("the small budget should have stopped the run (%v); this machine may be too slow, try again", err)
	}
	first := len(upstream.Arrivals()) - before
	a.say("\n%s came. When units are back, the next run resumes:\n", human.Count(first, "page"))
	for errors.Is(err, quota.ErrRefused) { // a slow machine may need a third run
		if err := until(ctx, jobs.RetryAt(err)); err != nil {
			return err
		}
		err = stage.act(ctx)
	}
	if err != nil {
		return err
	}
	pages := map[string]bool{}
	arrivals := upstream.Arrivals()[before:]
	for _, arrival := range arrivals {
		pages[arrival.Region+" "+arrival.Query.Get("pageToken")] = true
	}
	if len(pages) != len(arrivals) {
		return fmt.Errorf("%s took %s; please report this", human.Count(len(pages), "page"), human.Count(len(arrivals), "call"))
	}
	missing := len(arrivals) - first
	a.say("\nThe next run fetched the %s that %s missing: %s, %s, none twice.", human.Count(missing, "page"), human.Was(missing),
		human.Count(len(pages), "page"), human.Count(len(arrivals), "call"))
	return nil
}

// next tells what to try against the folder that the demo leaves.
func (a *app) next(dir string) {
	program := "ration"
	if strings.Contains(os.Args[0], "go-build") { // go run
		program = "go run ./cmd/ration"
	}
	a.say("\nTry next:")
	for _, command := range []string{"status", "log --last 10", "search music --region IN"} {
		fmt.Fprintf(a.stdout, "  %s --config %s --state %s %s\n", program, dir, dir, command)
	}
}

func (a *app) say(format string, args ...any) { a.paragraph("", format, args...) }

// stage is an app that works in one folder of the demo, whatever the
// environment says.
func (a *app) stage(dir, prefix, address string) (*app, error) {
	if err := privatefile.MkdirAll(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{"costs.yaml", "regions.yaml"} {
		data, err := demoFiles.ReadFile("demo/" + prefix + name)
		if err != nil {
			return nil, err
		}
		if err := privatefile.Replace(filepath.Join(dir, name), data, false); err != nil {
			return nil, err
		}
	}
	stage := *a
	stage.place, stage.configDir, stage.stateDir, stage.endpoint, stage.ledgerURL = nil, dir, dir, address, ""
	stage.json, stage.quiet = false, false
	stage.getenv = func(name string) string {
		if strings.HasPrefix(name, "RATION_") {
			return ""
		}
		return a.getenv(name)
	}
	return &stage, nil
}

// act runs all regions and prints what came of it.
func (a *app) act(ctx context.Context) error {
	table, config, err := a.setup().PricesAndRegions()
	if err != nil {
		return err
	}
	f, err := a.setup().OpenFetching(ctx, table, config, "demo-key")
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

// held returns what the ledger holds of the first budget.
func (a *app) held(ctx context.Context) (quota.Units, error) {
	table, err := a.setup().Prices()
	if err != nil {
		return 0, err
	}
	c, err := a.setup().Open(table, false)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	balances, err := c.Guard().Balances(ctx)
	if err != nil {
		return 0, err
	}
	return balances[0].Used, nil
}

// review prints a run's table and, when it broke, its line.
func (a *app) review(report *jobs.Report) error {
	a.reportTable(report)
	a.say("")
	err := worst(report)
	if err != nil {
		a.say("ration: %s", runLine(report, err, a.now()))
	}
	return err
}

// serve starts an HTTP server on a free loopback port.
func serve(handler http.Handler) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	return server, "http://" + listener.Addr().String(), nil
}

// until waits until a time, or until ctx ends.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
