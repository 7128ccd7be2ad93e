// Package daemon runs serve and proxy: it keeps a gateway open, loads the
// configuration again when it is told to, sends alerts, shows metrics, and
// tells systemd how it is doing. Serve also runs the passes of the schedule.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
)

// Options are what both daemons need of their process. All are required.
type Options struct {
	Setup  *setup.Setup
	Hangup <-chan os.Signal // what is sent there loads the configuration again
	Grace  time.Duration    // how long pages, programs and requests in flight may take at the end

	// Logger returns what logs, without the secrets known by now.
	Logger func() *slog.Logger
	// Message returns the text of an error, without secrets.
	Message func(error) string
	// IsDown reports whether an error says that only the ledger is down, which
	// may be back when it is opened again.
	IsDown func(error) bool
	// Listening is called when the gateway at a URL accepts requests.
	Listening func(log *slog.Logger, url string)
}

// service is what serve and proxy keep while their configuration changes.
type service struct {
	*Options
	setup   *setup.Setup
	log     *slog.Logger // says nothing of any secret read so far
	systemd systemdNotifier
	gateway *setup.GatewayServer // nil: no gateway
	retry   <-chan time.Time     // loads again what only the ledger kept from being loaded
	reopen  chan struct{}        // loads again after the catalogue was replaced
	closing sync.WaitGroup       // of clients that were replaced
	metrics exposition
	watches sync.Map // of what stops the alerts of a client, by *client.Client

	mu      sync.Mutex     // of setup, which loading changes, and of what follows
	inForce *configuration // nil before the first was loaded
}

func newService(o *Options) *service {
	return &service{Options: o, setup: o.Setup, metrics: newExposition(), reopen: make(chan struct{}, 1)}
}

// openGateway opens the gateway.
func (s *service) openGateway(o *setup.GatewayOptions) error {
	server, err := s.setup.OpenGateway(o)
	if err != nil {
		return err
	}
	s.gateway = server
	server.HandleClient("GET /metrics", s.metrics.show)
	return nil
}

// configuration is what is compared with what is read next.
type configuration struct {
	ledger string
	*ConfigDescription
}

func (s *service) newConfiguration(table *costs.Table, config *jobs.Config) *configuration {
	return &configuration{client.LedgerName(table, s.setup.Options()), DescribeConfig(table, config)}
}

// checkMove refuses another ledger than the one in force.
func (s *service) checkMove(later *configuration) error {
	if s.inForce != nil && s.inForce.ledger != later.ledger {
		return &client.ConfigError{Err: fmt.Errorf("the files name another ledger, %s instead of %s; its budgets "+
			"know what was spent only if ration ledger copy moved it there; restart to use that, or name the old one "+
			"again", later.ledger, s.inForce.ledger)}
	}
	return nil
}

// warnOfMove warns at the start of a ledger that is empty and was not before,
// and of a replica that knew nothing of it.
func (s *service) warnOfMove(ctx context.Context, c *client.Client) {
	if s.inForce != nil {
		return
	}
	if err := c.CheckMove(ctx); err != nil {
		s.Logger().Warn("empty ledger", "reason", err.Error())
	}
	if err := c.CheckReplica(ctx); err != nil {
		s.Logger().Warn("new replica", "reason", err.Error())
	}
}

// ledgerPause is how long a ledger that cannot even be opened is left alone.
const ledgerPause = 10 * time.Second

// load calls open, which reads the files and opens what they name, and makes
// the gateway use that. It logs what changed, or what is wrong with them. If
// that is the ledger's being down, it is tried again later. The first error
// that is not for the log is returned as it is.
func (s *service) load(open func() (*client.Client, *configuration, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retry = nil
	first := s.log == nil
	report := &reportLog{service: s}
	s.setup.Report = report.report
	c, later, err := open()
	s.log = s.Logger()
	report.opened(s.log, c)
	if err == nil {
		s.metrics.add(c, s.setup.Timer)
		s.startWatch(c)
		if s.gateway != nil {
			s.gateway.Use(c)
		}
		s.logChanges(later)
		return nil
	}
	if s.IsDown(err) {
		s.retry = time.After(ledgerPause)
	} else if first {
		return err // told by its exit
	}
	for line := range strings.Lines(s.Message(err)) { // a mistake a line
		s.log.Error("configuration not loaded", "reason", strings.TrimSpace(line))
	}
	switch {
	case s.inForce != nil:
		s.log.Warn("the old configuration stays in force")
	case !first:
		s.log.Warn("no configuration is in force")
	}
	return err
}

// isFatal reports whether an error of the first load ends the command: it is of
// the configuration, or the command was told to end already.
func (s *service) isFatal(err error) bool { return err != nil && !s.IsDown(err) }

// release closes a client that is replaced, once no request of the gateway uses
// it. It does not wait.
func (s *service) release(c *client.Client, close func()) {
	s.closing.Go(func() {
		s.stopWatch(c)
		if s.gateway != nil {
			s.gateway.Release(c)
		}
		s.metrics.retire(c)
		close()
	})
}

// listen makes the gateway accept requests.
func (s *service) listen() {
	if s.gateway != nil {
		s.gateway.Serve(s.Grace)
		s.Listening(s.log, s.gateway.URL)
	}
}

// wait calls reload when it is asked for, until ctx ends. alive reports
// whether the watchdog of systemd may be notified.
func (s *service) wait(ctx context.Context, reload func() (status string, err error), alive func() bool) {
	watchdog, stop := s.systemd.watchdog()
	defer stop()
	again := func() {
		s.systemd.notify("RELOADING=1", daemon.SdNotifyMonotonicUsec())
		status, err := reload()
		switch {
		case err != nil && s.inForce == nil:
			status = "STATUS=the configuration could not be loaded; see the log"
		case err != nil:
			status = "STATUS=the configuration could not be loaded again, the old one stays in force; see the log"
		}
		s.systemd.notify("READY=1", status)
	}
	for {
		select {
		case <-s.Hangup:
			again()
		case <-s.retry:
			again()
		case <-s.reopen:
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

// logChanges says what a reload changed, a line each.
func (s *service) logChanges(later *configuration) {
	if s.inForce != nil {
		lines := s.inForce.Changes(later.ConfigDescription)
		for _, line := range lines {
			s.log.Info("configuration changed", "what", line)
		}
		if len(lines) == 0 {
			s.log.Info("configuration read again: nothing changed")
		}
	}
	s.inForce = later
}
