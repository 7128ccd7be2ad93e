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

	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/changes"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/metrics"
)

// service is what serve and proxy keep while their configuration changes.
type service struct {
	*app
	log     *slog.Logger // says nothing of any secret read so far
	systemd systemdNotifier
	door    *setup.Door // nil: no gateway
	hup     chan os.Signal
	retry   <-chan time.Time // loads again what only the ledger kept from being loaded
	closing sync.WaitGroup   // of clients that were replaced
	metrics exposition
	watches watches

	mu      sync.Mutex     // of app, which loading changes, and of what follows
	inForce *configuration // nil before the first was loaded
}

// newService returns a service that hears SIGHUP until stop is called.
func (a *app) newService() (s *service, stop func()) {
	s = &service{app: a, hup: make(chan os.Signal, 1), metrics: exposition{passes: metrics.NewPasses()}}
	signal.Notify(s.hup, syscall.SIGHUP)
	return s, func() { signal.Stop(s.hup) }
}

// configuration is what is compared with what is read next.
type configuration struct {
	ledger string
	*changes.Config
}

func (a *app) newConfiguration(table *costs.Table, config *jobs.Config, key string) *configuration {
	return &configuration{client.LedgerName(table, a.setup().Options()), changes.Describe(table, config, key)}
}

// movedError says that a reload would move to another ledger.
type movedError struct{ from, to string }

func (e *movedError) Error() string {
	return fmt.Sprintf("the files name another ledger, %s instead of %s, whose budgets do not know what was spent; restart to move there, or name the old one again", e.to, e.from)
}

// checkMove refuses another ledger than the one in force.
func (s *service) checkMove(later *configuration) error {
	if s.inForce != nil && s.inForce.ledger != later.ledger {
		return &client.ConfigError{Err: &movedError{s.inForce.ledger, later.ledger}}
	}
	return nil
}

// warnOfMove warns at the start of a ledger that is empty and was not before.
func (s *service) warnOfMove(ctx context.Context, c *client.Client) {
	if s.inForce != nil {
		return
	}
	if err := c.CheckMove(ctx); err != nil {
		s.logger().Warn("empty ledger", "reason", err.Error())
	}
}

// ledgerPause is how long a ledger that cannot even be opened is left alone.
const ledgerPause = 10 * time.Second

// load calls open, which reads the files and opens what they name, and makes the
// gateway use that. It logs what changed, or what is wrong with them. If that is
// the ledger's being down, it is tried again later. The first error that is not
// for the log is returned as it is.
func (s *service) load(open func() (*client.Client, *configuration, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retry = nil
	first := s.log == nil
	report := &reportLog{service: s}
	s.setup().Report = report.report
	c, later, err := open()
	s.log = s.logger()
	report.log, report.client = s.log, c
	if err == nil {
		s.metrics.add(c, s.setup().Timer)
		s.startWatch(c)
		if s.door != nil {
			s.door.Use(c)
		}
		s.logChanges(later)
		return nil
	}
	exit, _ := code(err)
	if exit == exitLedger {
		s.retry = time.After(ledgerPause)
	} else if first {
		return err // told by its exit
	}
	for line := range strings.Lines(message(err)) { // a mistake a line
		s.log.Error("configuration not loaded", "reason", strings.TrimSpace(line))
	}
	if !first {
		s.log.Warn("the old configuration stays in force")
	}
	return err
}

// isFatal reports whether an error of the first load ends the command: it is of
// the configuration, or the command was told to end already.
func isFatal(err error) bool {
	exit, _ := code(err)
	return err != nil && exit != exitLedger
}

// release closes a client that is replaced, once no request of the gateway uses
// it. It does not wait.
func (s *service) release(c *client.Client, close func()) {
	s.closing.Go(func() {
		s.watches.stop(c)
		if s.door != nil {
			s.door.Release(c)
		}
		s.metrics.pages.Delete(c)
		close()
	})
}

// listen makes the gateway accept requests, and says so on stderr.
func (s *service) listen(grace time.Duration) {
	if s.door == nil {
		return
	}
	s.door.Serve(grace)
	if s.json {
		s.log.Info("listening", "url", s.door.URL)
		return
	}
	fmt.Fprintln(s.stderr, "ration: listening on", s.door.URL)
}

// wait calls reload when it is asked for, until ctx ends. alive reports
// whether the watchdog of systemd may be notified.
func (s *service) wait(ctx context.Context, reload func() (status string, err error), alive func() bool) {
	watchdog, stop := s.systemd.watchdog()
	defer stop()
	again := func() {
		s.systemd.notify("RELOADING=1", daemon.SdNotifyMonotonicUsec())
		status, err := reload()
		if err != nil {
			status = "STATUS=the configuration could not be loaded again, the old one stays in force; see the log"
		}
		s.systemd.notify("READY=1", status)
	}
	for {
		select {
		case <-s.hup:
			again()
		case <-s.retry:
			again()
		case <-watchdog:
			if alive() {
				s.systemd.notify("WATCHDOG=1")
			}
		case <-ctx.Done():
			return
		}
	}
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
	case as[*quota.ClockError](err):
		r.log.Warn("the clock of this host is wrong", "reason", err.Error())
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
