package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/gateway"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/jobs/status"
	"github.com/ration-dev/ration/quota/usage"
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
	if _, err := readQuery(query, func(*pflag.FlagSet) {}); err != nil {
		return nil, err
	}
	report := status.New(a.now())
	err := report.Read(ctx, a.setup(), c)
	if !isLedgerError(err) && err != nil {
		return nil, err
	}
	if failed := report.AddHost(c); failed != nil && err == nil {
		return nil, failed
	}
	if waiting, failed := status.WaitingSteps(ctx, a.setup()); failed == nil {
		report.Waiting = waiting
	}
	document, failed := withLedgerState(report, ledgerStateOf(c))
	return document, errors.Join(err, failed)
}

func (a *app) logDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var f logFlags
	if _, err := readQuery(query, f.define); err != nil {
		return nil, err
	}
	if f.By != "" && !query.Has("last") {
		f.Last = 0
	}
	since, until, err := f.check(a.now())
	if err != nil {
		return nil, queryError(err)
	}
	f.filter.Region = setup.SpellRegion(f.filter.Region, c.Table())
	accounts, err := chosenAccounts(c.Table(), f.account)
	if err != nil {
		return nil, queryError(err)
	}
	found, err := f.Select(ctx, a.setup(), c, &usage.Source{Ledger: c.Ledger(), Accounts: accounts, Since: since, Until: until, Filter: f.filter})
	if err != nil {
		return nil, err
	}
	return gateway.Lines(func(yield func(any, error) bool) {
		for _, period := range found.Periods {
			if !yield(period, nil) {
				return
			}
		}
		for _, total := range f.Largest(found.Totals) {
			if !yield(total, nil) {
				return
			}
		}
		if found.Lines == nil {
			return
		}
		for line, err := range found.Lines {
			if !yield(usage.NewLineReport(&line), err) || err != nil {
				return
			}
		}
	}), nil
}

func (a *app) planDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var f planFlags
	if _, err := readQuery(query, f.define); err != nil {
		return nil, err
	}
	from, _, err := f.span()
	if err != nil {
		return nil, queryError(err)
	}
	config, err := a.setup().Regions(c.Table(), jobs.Lane)
	if err != nil {
		return nil, err
	}
	p := f.newPlanning(from, a.now(), c.Table(), config)
	if !f.fresh {
		if err := p.ReadState(ctx, c.Guard()); err != nil {
			return nil, err
		}
		p.Ledger = c.LedgerName()
		if p.Unrecorded, err = c.Unrecorded(); err != nil {
			return nil, err
		}
	}
	if err := f.play(ctx, p); err != nil {
		return nil, queryError(err)
	}
	return withLedgerState(p.Document(a.verbose), ledgerStateOf(c))
}

// searchDocument answers a search of the catalogue, whose words are in q.
func (a *app) searchDocument(ctx context.Context, c *client.Client, query url.Values) (any, error) {
	var q catalog.Query
	_, err := readQuery(query, func(flags *pflag.FlagSet) {
		defineSearch(flags, &q)
		flags.StringVar(&q.Text, "q", "", "")
	})
	if err != nil {
		return nil, err
	}
	if err := checkSearch(&q); err != nil {
		return nil, &gateway.QueryError{Err: err}
	}
	found, err := a.searchCatalogue(ctx, q)
	if errors.Is(err, catalog.ErrEmptyQuery) {
		return nil, &gateway.QueryError{Err: fmt.Errorf("q: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	return withLedgerState(found, ledgerStateOf(c))
}

func isLedgerError(err error) bool {
	exit, _ := code(err)
	return exit == exitLedger
}

// ledgerStateOf returns what a client knows of its ledger.
func ledgerStateOf(c *client.Client) client.LedgerState {
	s := client.NewLedgerState(c.Outage())
	if units, err := c.Unrecorded(); err == nil {
		s.Unrecorded = &units
	}
	return s
}

// readQuery reads parameters that are named like flags, each at most once. A
// switch may have no value.
func readQuery(query url.Values, define func(*pflag.FlagSet)) (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("query", pflag.ContinueOnError)
	define(flags)
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	for _, name := range slices.Sorted(maps.Keys(query)) {
		flag, values := flags.Lookup(name), query[name]
		switch {
		case flag == nil && len(known) == 0:
			return nil, &gateway.QueryError{Err: fmt.Errorf("unknown parameter %q; this document has none", name)}
		case flag == nil:
			return nil, &gateway.QueryError{Err: fmt.Errorf("unknown parameter %q: %s", name, strictyaml.Advice(name, known))}
		case len(values) > 1:
			return nil, &gateway.QueryError{Err: fmt.Errorf("%s is given %d times; give it once", name, len(values))}
		case values[0] == "" && flag.NoOptDefVal != "":
			values = []string{flag.NoOptDefVal}
		}
		if err := flags.Set(name, values[0]); err != nil {
			return nil, queryError(cmp.Or(invalidValue(err), err))
		}
	}
	return flags, nil
}

// queryError makes a usage error of a command one of a query, and leaves others.
func queryError(err error) error {
	if !as[*usageError](err) {
		return err
	}
	return &gateway.QueryError{Err: errors.New(strings.ReplaceAll(err.Error(), "--", ""))}
}
