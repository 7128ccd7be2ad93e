package daemon

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota/inbound"
)

// Schedule says how Serve runs passes.
type Schedule struct {
	KeyFile  string // of the API key; "" is the environment's
	Parallel int    // regions fetched at a time
	Jitter   time.Duration

	Gateway  *setup.GatewayOptions // nil: no gateway
	Optional bool                  // go on without a gateway if another program has its address
	Search   gateway.Document      // answers searches of the catalogue

	// WhyStopped says why a context has ended.
	WhyStopped func(context.Context) string
}

// Serve runs each region's passes at their ticks until ctx ends.
func Serve(ctx context.Context, o *Options, schedule *Schedule) error {
	s := &scheduled{service: newService(o), Schedule: schedule}
	if err := s.openGateway(); err != nil {
		return err
	}
	defer s.closing.Wait()
	defer func() { s.gateway.Close() }()
	work, err := s.load(ctx)
	if s.isFatal(err) {
		return err
	}
	if err := s.systemd.notify("STATUS=starting"); err != nil {
		s.log.Warn("systemd is not told", "reason", err.Error())
	}
	clock := NewScheduler(&SchedulerOptions{Jitter: s.Jitter, Parallel: s.Parallel})
	var ticking sync.WaitGroup
	ticking.Go(func() { clock.Serve(ctx, work) })
	s.listen()
	s.systemd.notify("READY=1", serving(work))
	s.wait(ctx, func() (string, error) {
		work, err := s.load(ctx)
		if err == nil {
			clock.Replace(work)
		}
		return serving(work), err
	}, func() bool { return clock.Alive(ctx) })
	s.systemd.notify("STOPPING=1", "STATUS=waiting for the pages in flight")
	s.log.Info("stopping: the pages in flight may arrive", "reason", s.WhyStopped(ctx), "grace", s.Grace)
	ticking.Wait()
	s.gateway.Close() // after the passes, which may use it
	s.closing.Wait()
	s.log.Info("stopped")
	return nil
}

// scheduled is the service of Serve.
type scheduled struct {
	*service
	*Schedule
	pruned time.Time // protected by mu
	filled time.Time // when the history was filled; protected by mu
}

// openGateway opens the gateway. Without one at its usual address, which
// another serve or proxy may have, serve does the rest of its work.
func (s *scheduled) openGateway() error {
	if s.Gateway == nil {
		return nil
	}
	err := s.service.openGateway(s.Gateway)
	if err != nil && s.Optional && errors.Is(err, syscall.EADDRINUSE) {
		s.Logger().Warn("no gateway", "reason", s.Message(err))
		return nil
	}
	if err != nil {
		return err
	}
	return s.openSearch()
}

// searchesAMinute is how often one client may search through a gateway.
const searchesAMinute = 60

// openSearch makes the gateway answer searches, at most searchesAMinute for
// each client. Other hosts' gateways count by themselves.
func (s *scheduled) openSearch() error {
	limits := []inbound.Limit{{Calls: searchesAMinute, Per: time.Minute}}
	limiter, err := inbound.New(inbound.Memory(), limits, nil)
	if err != nil {
		return err
	}
	s.gateway.Handle("GET /search", limiter.Handler(s.gateway.DocumentHandler(s.Search)))
	return nil
}

func serving(work *Work) string {
	return "STATUS=serving " + human.Count(len(work.Regions), "region")
}

// load reads the files, checks the key and opens all that passes need. While
// the ledger cannot even be opened, there is nothing to do.
func (s *scheduled) load(ctx context.Context) (*Work, error) {
	var f *setup.Fetcher
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
		return &Work{Log: log}, err
	}
	log.Info("serving", "regions", len(config.Regions), "ledger", f.Client.LedgerName(), "jitter", s.Jitter)
	p := &passes{scheduled: s, Fetcher: f, log: log}
	stop := p.keepHistory()
	return &Work{Regions: config.Regions, Run: p.runCounted, Order: f.Catalog.LongestUnfetched, Log: log,
		Close: func() { stop(); s.release(f.Client, f.Close) }}, nil
}

// openAll reads the files and opens what they name. It does not move to another
// ledger than the one in force.
func (s *scheduled) openAll(ctx context.Context) (*jobs.Config, *setup.Fetcher, *configuration, error) {
	table, config, err := s.setup.PricesAndRegions()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := jobs.CheckPrograms(config.Regions); err != nil {
		return nil, nil, nil, err
	}
	if s.gateway != nil {
		if err := s.setup.CheckCredentials(table); err != nil {
			return nil, nil, nil, err
		}
	}
	key, err := s.setup.FetchKey(s.KeyFile, config.Regions)
	if err != nil {
		return nil, nil, nil, err
	}
	later := s.newConfiguration(table, config)
	if err := s.checkMove(later); err != nil {
		return nil, nil, nil, err
	}
	f, err := s.setup.OpenFetcher(ctx, table, config, key)
	if err == nil {
		s.warnOfMove(ctx, f.Client)
	}
	return config, f, later, err
}
