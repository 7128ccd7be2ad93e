package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
)

// documents returns what the gateway shows at /v1/NAME: what the command NAME
// prints with --json. There is a plan if there is a regions.yaml.
func (a *app) documents() map[string]gateway.Document {
	all := map[string]gateway.Document{"status": a.statusDocument, "log": a.logDocument, "plan": a.planDocument}
	if !a.setup().HasRegions() {
		delete(all, "plan")
	}
	return all
}

func (a *app) statusDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	if _, err := cli.ReadQuery(query, func(*pflag.FlagSet) {}); err != nil {
		return nil, err
	}
	report, err := inspect.ReadReport(ctx, a.setup(), c)
	if err != nil && !isLedgerError(err) {
		return nil, err
	}
	report.Version = cli.ReadBuild().Version
	document, failed := c.LedgerState().AddTo(report)
	return document, errors.Join(err, failed)
}

func (a *app) logDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var f logFlags
	if _, err := cli.ReadQuery(query, f.define); err != nil {
		return nil, err
	}
	if f.By != "" && !query.Has("last") {
		f.Last = 0
	}
	since, until, err := f.check(a.now())
	if err != nil {
		return nil, cli.QueryError(err)
	}
	f.filter.Region = setup.SpellRegion(f.filter.Region, c.Table())
	accounts, err := cli.Accounts(c.Table(), f.account)
	if err != nil {
		return nil, cli.QueryError(err)
	}
	found, err := f.Select(ctx, a.setup(), c, &usage.LogReader{Guard: c.Guard(), Accounts: accounts, Since: since,
		Until: until, Filter: f.filter})
	if err != nil && len(found.Periods) == 0 {
		return nil, err
	}
	return gateway.Lines(f.Documents(&found)), err
}

func (a *app) planDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var f planFlags
	if _, err := cli.ReadQuery(query, f.define); err != nil {
		return nil, err
	}
	from, _, err := f.span()
	if err != nil {
		return nil, cli.QueryError(err)
	}
	config, err := a.setup().Regions(c.Table(), jobs.Lane)
	if err != nil {
		return nil, err
	}
	p := f.newPlanner(from, a.now(), c.Table(), config)
	if !f.fresh {
		if err := readPlanState(ctx, p, c); err != nil {
			return nil, err
		}
	}
	if err := f.play(ctx, p); err != nil {
		return nil, cli.QueryError(err)
	}
	return c.LedgerState().AddTo(p.Document(a.verbose))
}

// searchDocument answers a search of the catalogue, whose words are in q.
func (a *app) searchDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var q catalog.Query
	_, err := cli.ReadQuery(query, func(flags *pflag.FlagSet) {
		defineSearch(flags, &q)
		flags.StringVar(&q.Text, "q", "", "")
	})
	if err != nil {
		return nil, err
	}
	if err := cli.CheckSearch(&q); err != nil {
		return nil, &gateway.QueryError{Err: err}
	}
	found, err := cli.Search(ctx, a.setup(), q)
	if errors.Is(err, catalog.ErrEmptyQuery) {
		return nil, &gateway.QueryError{Err: fmt.Errorf("q: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	return c.LedgerState().AddTo(found)
}

func isLedgerError(err error) bool {
	exit, _ := code(err)
	return exit == exitLedger
}
