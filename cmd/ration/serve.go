package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/scheduler"
	"github.com/ration-dev/ration/jobs/setup"
)

// serveFlags are what serve may be told.
type serveFlags struct {
	keyFile  string
	parallel int
	jitter   time.Duration
	listen   listenFlags
	noPage   bool
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
JSON). On SIGHUP it reloads both files and the key, and logs what changed. If a
file is invalid or names another ledger, serve reports that and keeps the old
configuration; moving to another ledger takes a restart. On SIGTERM or SIGINT it
waits up to --grace for pages in flight and programs, saves what is done, and
exits 0. Under systemd
it uses sd_notify and the watchdog: see docs/running.md.

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
	flags.StringVar(&f.keyFile, "key-file", "", "`file` that holds the API key")
	flags.IntVar(&f.parallel, "parallel", jobs.DefaultParallel, "fetch this many regions at a time")
	f.jitter = 30 * time.Second
	durationflag.SecondsVar(flags, &f.jitter, "jitter", "delay each start by less than this, each region differently; 0 starts on time")
	f.listen.define(cmd, ", or none")
	flags.BoolVar(&f.noPage, "no-page", false, "show no page at / of the gateway")
	durationflag.SecondsVar(flags, &f.listen.grace, "grace", "how long to wait for pages and requests in flight when stopping")
	return cmd
}

func (f *serveFlags) check(cmd *cobra.Command) error {
	if f.jitter < 0 || f.jitter > time.Hour {
		return &usageError{fmt.Errorf("--jitter %s: give 0 to 1h", human.Exactly(f.jitter))}
	}
	if err := f.listen.check(cmd); err != nil {
		return err
	}
	return checkParallel(f.parallel)
}

func (a *app) serve(ctx context.Context, cmd *cobra.Command, flags *serveFlags) error {
	if err := flags.check(cmd); err != nil {
		return err
	}
	base, stop := a.newService()
	defer stop()
	s := &scheduled{service: base, flags: flags}
	if err := s.openDoor(); err != nil {
		return err
	}
	defer s.closing.Wait()
	defer func() { s.door.Close() }()
	work, err := s.load(ctx)
	if isFatal(err) {
		return err
	}
	if err := s.systemd.notify("STATUS=starting"); err != nil {
		s.log.Warn("systemd is not told", "reason", err.Error())
	}
	clock := scheduler.New(&scheduler.Options{Jitter: flags.jitter, Parallel: flags.parallel})
	served := make(chan struct{})
	go func() {
		defer close(served)
		clock.Serve(ctx, work)
	}()
	s.listen(flags.listen.grace)
	s.systemd.notify("READY=1", serving(work))
	s.wait(ctx, func() (string, error) {
		work, err := s.load(ctx)
		if err == nil {
			clock.Replace(work)
		}
		return serving(work), err
	}, func() bool { return clock.Alive(ctx) })
	s.systemd.notify("STOPPING=1", "STATUS=waiting for the pages in flight")
	s.log.Info("stopping: the pages in flight may arrive", "reason", whyStopped(ctx), "grace", flags.listen.grace)
	<-served
	s.door.Close() // after the passes, which may use it
	s.closing.Wait()
	s.log.Info("stopped")
	return nil
}

// scheduled is the service of serve.
type scheduled struct {
	*service
	flags  *serveFlags
	pruned time.Time // protected by mu
	filled time.Time // when the history was filled; protected by mu
}

// openDoor opens the gateway. Without one at its usual address, which another
// serve or proxy may have, serve does the rest of its work.
func (s *scheduled) openDoor() error {
	if s.flags.listen.Address == noAddress {
		return nil
	}
	s.flags.listen.Page = !s.flags.noPage
	door, err := s.setup().OpenDoor(&s.flags.listen.DoorOptions)
	if err != nil && !s.flags.listen.asked && errors.Is(err, syscall.EADDRINUSE) {
		s.logger().Warn("no gateway", "reason", message(err))
		return nil
	}
	if err != nil {
		return err
	}
	s.door = door
	door.HandleClient("GET /metrics", s.metrics.show)
	return s.openSearch()
}

func serving(work *scheduler.Work) string {
	return "STATUS=serving " + human.Count(len(work.Regions), "region")
}

// load reads the files and the key and opens all that passes need. While the
// ledger cannot even be opened, there is nothing to do.
func (s *scheduled) load(ctx context.Context) (*scheduler.Work, error) {
	var f *setup.Fetching
	var config *jobs.Config
	err := s.service.load(func() (*client.Client, *configuration, error) {
		var later *configuration
		var err error
		if config, f, later, err = s.openAll(ctx); err != nil {
			return nil, nil, err
		}
		return f.Client, later, nil
	})
	log := s.log
	if err != nil {
		return &scheduler.Work{Log: log}, err
	}
	log.Info("serving", "regions", len(config.Regions), "ledger", f.Client.LedgerName(), "jitter", s.flags.jitter)
	p := &passes{scheduled: s, Fetching: f, log: log}
	stop := p.keepHistory()
	return &scheduler.Work{Regions: config.Regions, Run: p.runCounted, Order: f.Catalog.LongestUnfetched, Log: log,
		Close: func() { stop(); s.release(f.Client, f.Close) }}, nil
}

// openAll reads the files and opens what they name. It does not move to another
// ledger than the one in force.
func (s *scheduled) openAll(ctx context.Context) (*jobs.Config, *setup.Fetching, *configuration, error) {
	table, config, err := s.setup().PricesAndRegions()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := jobs.CheckPrograms(config.Regions); err != nil {
		return nil, nil, nil, err
	}
	if s.door != nil {
		if err := s.setup().CheckCredentials(table); err != nil {
			return nil, nil, nil, err
		}
	}
	key, err := s.setup().FetchKey(s.flags.keyFile, config.Regions)
	if err != nil {
		return nil, nil, nil, err
	}
	later := s.newConfiguration(table, config, key)
	if err := s.checkMove(later); err != nil {
		return nil, nil, nil, err
	}
	f, err := s.setup().OpenFetching(ctx, table, config, key)
	if err == nil {
		s.warnOfMove(ctx, f.Client)
	}
	return config, f, later, err
}

// passes takes the passes of one configuration.
type passes struct {
	*scheduled
	*setup.Fetching
	log *slog.Logger
}

func (p *passes) runCounted(ctx context.Context, region jobs.Region) jobs.RegionReport {
	return p.metrics.runTimed(ctx, region, p.run)
}

// run takes a region's current pass as far as it goes. What may be waited and
// retried counts anew for each, as it does for each ration run.
func (p *passes) run(ctx context.Context, region jobs.Region) jobs.RegionReport {
	runner, err := p.NewRunner(ctx)
	if err != nil {
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Failed, Err: err}
	}
	runner.Grace, runner.Output = p.flags.listen.grace, logOutput(p.log)
	report, err := runner.Run(ctx, []jobs.Region{region})
	if err != nil {
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Failed, Err: err}
	}
	p.after(context.WithoutCancel(ctx), report)
	return report.Regions[0]
}

// after does what a run does after its passes.
func (p *passes) after(ctx context.Context, report *jobs.Report) {
	p.mu.Lock()
	p.Client.RepeatRefusal(report.Err) // for why
	marks, err := p.setup().LevelMarks()
	prune := p.now().Sub(p.pruned).Abs() > time.Hour
	fill := p.now().Sub(p.filled).Abs() > time.Minute
	if fill {
		p.filled = p.now()
	}
	if prune {
		p.pruned = p.now()
	}
	p.mu.Unlock()
	if report.Outcome != jobs.Failed && err == nil { // others may have spent, too
		if balances, err := p.Client.Guard().Balances(ctx); err == nil {
			for _, line := range marks.Crossed(balances) {
				p.log.Warn("budget crosses a level", "reason", line)
			}
		}
	}
	if fill {
		p.fillHistory(ctx)
	}
	if !prune {
		return
	}
	if _, err := p.Catalog.Prune(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Error("old rows stay", "reason", err.Error())
	}
}
