package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/changes"
	"github.com/ration-dev/ration/jobs/scheduler"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// serveFlags are what serve may be told.
type serveFlags struct {
	keyFile  string
	parallel int
	jitter   time.Duration
	grace    time.Duration
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

` + exitCodes(exitConfig) + `
Once started, it exits only with 0.`,
		Example: "  ration serve --key-file /srv/ration/key\n  ration serve --jitter 5m --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.keyFile, "key-file", "", "`file` that holds the API key")
	flags.IntVar(&f.parallel, "parallel", jobs.DefaultParallel, "fetch this many regions at a time")
	f.jitter, f.grace = 30*time.Second, 10*time.Second
	durationflag.SecondsVar(flags, &f.jitter, "jitter", "delay each start by less than this, each region differently; 0 starts on time")
	durationflag.SecondsVar(flags, &f.grace, "grace", "how long to wait for pages in flight when stopping")
	return cmd
}

func (f *serveFlags) check() error {
	if f.jitter < 0 || f.jitter > time.Hour {
		return &usageError{fmt.Errorf("--jitter %s: give 0 to 1h", human.Exactly(f.jitter))}
	}
	if f.grace <= 0 || f.grace > 5*time.Minute {
		return &usageError{fmt.Errorf("--grace %s: give more than 0, up to 5m", human.Exactly(f.grace))}
	}
	return checkParallel(f.parallel)
}

// service is what serve keeps while its configuration changes.
type service struct {
	*app
	flags   serveFlags
	log     *slog.Logger // says nothing of any key read so far
	systemd systemdNotifier
	hup     chan os.Signal
	retry   <-chan time.Time // loads again what only the ledger kept from being loaded

	mu      sync.Mutex // of app, which loading changes, and of what follows
	pruned  time.Time
	inForce *configuration // nil before the first was loaded
}

// configuration is what serve compares with what it reads next.
type configuration struct {
	ledger string
	*changes.Config
}

// movedError says that a reload would move serve to another ledger.
type movedError struct{ from, to string }

func (e *movedError) Error() string {
	return fmt.Sprintf("the files name another ledger, %s instead of %s, whose budgets do not know what was spent; restart serve to move there, or name the old one again", e.to, e.from)
}

// ledgerPause is how long a ledger that cannot even be opened is left alone.
const ledgerPause = 10 * time.Second

func (a *app) serve(ctx context.Context, flags serveFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	s := &service{app: a, flags: flags, hup: make(chan os.Signal, 1)}
	signal.Notify(s.hup, syscall.SIGHUP)
	defer signal.Stop(s.hup)
	work, err := s.load(ctx)
	if exit, _ := code(err); err != nil && exit != exitLedger {
		return err // of the configuration, or it was told to end already
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
	// The place for a listener with a status page: beside the clock, ended before served.
	s.systemd.notify("READY=1", status(work))
	s.wait(ctx, clock)
	s.systemd.notify("STOPPING=1", "STATUS=waiting for the pages in flight")
	s.log.Info("stopping: the pages in flight may arrive", "reason", whyStopped(ctx), "grace", flags.grace)
	<-served
	s.log.Info("stopped")
	return nil
}

// whyStopped names the signal as people do who send it.
func whyStopped(ctx context.Context) string {
	stop, ok := errors.AsType[*signalError](context.Cause(ctx))
	if !ok {
		return message(context.Cause(ctx))
	}
	name := stop.signal.String()
	switch stop.signal {
	case syscall.SIGTERM:
		name = "SIGTERM"
	case syscall.SIGINT:
		name = "SIGINT"
	}
	return "told to stop (" + name + ")"
}

// wait does what serve is asked for until ctx ends.
func (s *service) wait(ctx context.Context, clock *scheduler.Scheduler) {
	watchdog, stop := s.systemd.watchdog()
	defer stop()
	for {
		select {
		case <-s.hup:
			s.reload(ctx, clock)
		case <-s.retry:
			s.reload(ctx, clock)
		case <-watchdog:
			if clock.Alive(ctx) {
				s.systemd.notify("WATCHDOG=1")
			}
		case <-ctx.Done():
			return
		}
	}
}

// reload gives the clock what the files say now, or says why they do not do.
func (s *service) reload(ctx context.Context, clock *scheduler.Scheduler) {
	s.systemd.notify("RELOADING=1", daemon.SdNotifyMonotonicUsec())
	work, err := s.load(ctx)
	if err != nil {
		s.systemd.notify("READY=1", "STATUS=the configuration could not be loaded again, the old one stays in force; see the log")
		return
	}
	clock.Replace(work)
	s.systemd.notify("READY=1", status(work))
}

func status(work *scheduler.Work) string {
	return "STATUS=serving " + human.Count(len(work.Regions), "region")
}

// load reads the files and the key, opens all that passes need, and says what
// is wrong with them. If that is the ledger's being down, it is tried again later,
// and until then there is nothing to do.
func (s *service) load(ctx context.Context) (*scheduler.Work, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retry = nil
	first := s.log == nil
	report := &reportLog{service: s}
	s.reportTo = report.report
	config, f, later, err := s.openAll(ctx)
	s.log = s.logger()
	report.log = s.log
	if f != nil {
		report.client = f.Client
	}
	exit, _ := code(err)
	if exit == exitLedger {
		s.retry = time.After(ledgerPause)
	}
	if err == nil {
		log := s.log
		s.logChanges(later)
		log.Info("serving", "regions", len(config.Regions), "ledger", f.Client.LedgerName(), "jitter", s.flags.jitter)
		p := &passes{service: s, fetching: f, log: log}
		return &scheduler.Work{Regions: config.Regions, Run: p.run, Order: f.Catalog.LongestUnfetched, Close: f.Close, Log: log}, nil
	}
	if first && exit != exitLedger {
		return nil, err // told by its exit
	}
	for line := range strings.Lines(message(err)) { // a mistake a line
		s.log.Error("configuration not loaded", "reason", strings.TrimSpace(line))
	}
	if !first {
		s.log.Warn("the old configuration stays in force")
	}
	return &scheduler.Work{Log: s.log}, err
}

// reportLog logs what the client of one configuration reports. It is safe for
// concurrent use.
type reportLog struct {
	service *service
	log     *slog.Logger
	client  *client.Client

	mu   sync.Mutex
	told time.Time // when the outage began that was logged last
}

func (r *reportLog) report(call quota.Call, err error) {
	outage, ok := errors.AsType[*client.OutageError](err)
	switch {
	case ok:
		r.reportOutage(outage)
	case as[*journal.RestoredError](err):
		r.log.Warn("ledger restored", "reason", err.Error())
	case as[*journal.UnwrittenError](err):
		r.log.Warn("journal not written", "reason", err.Error())
	case disagrees(err):
		r.log.Warn("the upstream disagrees with costs.yaml", "method", call.Method, "reason", err.Error())
	default:
		r.log.Warn("a call stays charged", "method", call.Method, "reason", err.Error())
	}
}

// reportOutage logs an outage when it begins and when it ends.
func (r *reportLog) reportOutage(outage *client.OutageError) {
	message := "ledger back"
	if outage.Down {
		message = "ledger down"
		r.mu.Lock()
		told := r.told.Equal(outage.Since)
		r.told = outage.Since
		r.mu.Unlock()
		if told {
			return
		}
	}
	text := outageText(r.client, outage)
	r.log.Warn(message, "reason", text)
	r.service.systemd.notify("STATUS=" + text)
}

// openAll reads the files and opens what they name. It does not move to another
// ledger than the one in force.
func (s *service) openAll(ctx context.Context) (*jobs.Config, *fetching, *configuration, error) {
	table, config, err := s.pricesAndRegions()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := jobs.CheckPrograms(config.Regions); err != nil {
		return nil, nil, nil, err
	}
	key, err := s.fetchKey(s.flags.keyFile, config.Regions)
	if err != nil {
		return nil, nil, nil, err
	}
	later := &configuration{client.LedgerName(table, s.clientOptions()), changes.Describe(table, config, key)}
	if s.inForce != nil && s.inForce.ledger != later.ledger {
		return nil, nil, nil, &configError{&movedError{s.inForce.ledger, later.ledger}}
	}
	f, err := s.openFetching(ctx, table, config, key)
	if err == nil && s.inForce == nil {
		if err := f.Client.CheckMove(ctx); err != nil {
			s.logger().Warn("empty ledger", "reason", err.Error())
		}
	}
	return config, f, later, err
}

// logChanges says what a reload changed, a line each.
func (s *service) logChanges(later *configuration) {
	if s.inForce != nil {
		lines := s.inForce.Changes(later.Config)
		for _, line := range lines {
			s.log.Info("configuration changed", "what", line)
		}
		if len(lines) == 0 {
			s.log.Info("configuration read again: nothing changed")
		}
	}
	s.inForce = later
}

// logger writes to stderr as it is now: without the secrets known by now.
func (a *app) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			attr.Value = slog.StringValue(attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
		} else if attr.Value.Kind() == slog.KindString {
			attr.Value = slog.StringValue(redact.URLs(attr.Value.String()))
		}
		return attr
	}}
	switch {
	case a.quiet:
		o.Level = slog.LevelWarn
	case a.verbose:
		o.Level = slog.LevelDebug
	}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.stderr, o))
}

// passes takes the passes of one configuration.
type passes struct {
	*service
	*fetching
	log *slog.Logger
}

// run takes a region's current pass as far as it goes. What may be waited and
// retried counts anew for each, as it does for each ration run.
func (p *passes) run(ctx context.Context, region jobs.Region) jobs.RegionReport {
	runner, err := p.NewRunner(ctx)
	if err != nil {
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Failed, Err: err}
	}
	runner.Grace, runner.Output = p.flags.grace, logOutput(p.log)
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
	p.keepRefusal(report.Err)
	marks, err := p.levelMarks()
	prune := p.now().Sub(p.pruned).Abs() > time.Hour
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
	if !prune {
		return
	}
	if _, err := p.Catalog.Prune(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Error("old rows stay", "reason", err.Error())
	}
}
