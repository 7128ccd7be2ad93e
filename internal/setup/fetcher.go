package setup

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
)

// Fetcher is a jobs.Fetcher, with a Runner of it, that closes what it uses.
type Fetcher struct {
	*jobs.Fetcher
	Runner *jobs.Runner
	server *GatewayServer // of the programs; nil if there are none
}

// OpenFetcher opens the ledger, the catalogue and, if regions.yaml has
// programs, their gateway.
func (s *Setup) OpenFetcher(ctx context.Context, table *costs.Table, config *jobs.Config,
	key func() (string, error)) (*Fetcher, error) {
	if _, err := s.MakeState(); err != nil {
		return nil, err
	}
	s.ConcealProxies()
	c, err := s.Open(table, true)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{Fetcher: &jobs.Fetcher{Client: c, Config: config, Key: key, Endpoint: s.UpstreamEndpoint(),
		Now: s.Now, ClaimTime: s.ClaimTime}}
	if f.Environ, err = s.Environment(); err == nil {
		err = s.openPrograms(f, table)
	}
	if err == nil {
		f.Catalog, err = s.OpenCatalog()
	}
	if err == nil {
		f.Runner, err = f.NewRunner(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openPrograms opens the gateway of the programs of regions.yaml, if it
// has any.
func (s *Setup) openPrograms(f *Fetcher, table *costs.Table) error {
	hasProgram := func(step jobs.Step) bool { return step.Program != nil }
	if !slices.ContainsFunc(f.Config.Regions,
		func(r jobs.Region) bool { return slices.ContainsFunc(r.Steps, hasProgram) }) {
		return nil
	}
	if err := s.CheckCredentials(table); err != nil {
		return err
	}
	d, err := s.OpenPrivateGateway()
	if err != nil {
		return err
	}
	d.Use(f.Client)
	f.server, f.Gateway = d, d
	return nil
}

// Close closes the programs' gateway, the catalogue and the ledger.
func (f *Fetcher) Close() {
	if f.server != nil {
		f.server.Close()
		f.server.Release(f.Client)
	}
	if f.Catalog != nil {
		f.Catalog.Close()
	}
	f.Client.Close()
}

// Planned returns when the schedule's calls will first be refused by each
// of the table's budgets. Without a regions.yaml, or without a log, it
// returns nil.
func (s *Setup) Planned(ctx context.Context, c *client.Client) ([]time.Time, error) {
	regions, err := s.Schedule(c.Table())
	if err != nil {
		return nil, err
	}
	return plan.ForecastFrom(ctx, c.Guard(), c.Table(), regions)
}
