package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// errNoLedger says that nothing was spent yet, so that there is no ledger.
var errNoLedger = errors.New("no ledger yet")

// ledger is the ledger in use and its name, fit to be shown.
type ledger struct {
	quota.Ledger
	name string
}

// spending is what costs.yaml names, opened: a guard on a ledger.
type spending struct {
	*client.Client // nil with errNoLedger, like guard
	guard          *quota.Guard
	ledger         *ledger
	unrecorded     func() (quota.Units, error)
}

// clientOptions returns the options by which package client finds the ledger
// that the flags and the environment name.
func (a *app) clientOptions() *client.Options {
	o := &client.Options{Ledger: a.ledgerURL, State: a.stateDir, Report: a.report, Conceal: a.conceal, Getenv: a.getenv}
	stderr := a.stderr // knows the secrets read so far; Redact may run while others are read
	o.Redact = func(text string) string { return redact.Text(stderr, text) }
	if a.reportTo != nil {
		o.Report = a.reportTo
	}
	if a.fixed {
		o.Now = a.now
	}
	return o
}

// openGuard opens what table names. Without create, a ledger that does not
// exist is errNoLedger, and the spending then has its name only.
func (a *app) openGuard(table *costs.Table, create bool) (*spending, error) {
	redis.SetLogger(silent{}) // errors say what it would write to stderr
	o := a.clientOptions()
	o.MustExist = !create
	c, err := client.New(table, o)
	if errors.Is(err, sqliteledger.ErrNoLedger) {
		a.spending = &spending{ledger: &ledger{name: client.LedgerName(table, o)}}
		a.spending.unrecorded = func() (quota.Units, error) { return client.Unrecorded(table, o) }
		return a.spending, errNoLedger
	}
	if err != nil {
		return nil, err
	}
	a.spending = &spending{Client: c, guard: c.Guard(), ledger: &ledger{c.Ledger(), c.LedgerName()}, unrecorded: c.Unrecorded}
	return a.spending, nil
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// fetching is all that a run needs.
type fetching struct {
	*spending
	fetcher *jobs.Fetcher
	runner  *jobs.Runner
}

// openFetching opens the ledger and the catalogue.
func (a *app) openFetching(ctx context.Context, table *costs.Table, config *jobs.Config, key string) (*fetching, error) {
	dir, err := a.makeState()
	if err != nil {
		return nil, err
	}
	for _, secret := range redact.ProxyPasswords(a.getenv) {
		a.conceal(secret)
	}
	s, err := a.openGuard(table, true)
	if err != nil {
		return nil, err
	}
	f := &fetching{spending: s, fetcher: &jobs.Fetcher{Client: s.Client, Config: config, Key: key, Endpoint: a.env(a.endpoint, "RATION_ENDPOINT"), Now: a.now}}
	if f.fetcher.Catalog, err = catalog.Open(filepath.Join(dir, "catalog.db"), &catalog.Options{Now: a.now}); err == nil {
		f.runner, err = f.fetcher.NewRunner(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the catalogue and the ledger.
func (f *fetching) Close() {
	if f.fetcher.Catalog != nil {
		f.fetcher.Catalog.Close()
	}
	f.spending.Close()
}

// report tells what no call returns: an outage of the ledger, a correction that
// did not reach it, whose units stay charged, and an answer that contradicts
// costs.yaml.
func (a *app) report(call quota.Call, err error) {
	switch {
	case as[*client.OutageError](err):
		a.reportOutage(err)
	case disagrees(err):
		fmt.Fprintf(a.stderr, "ration: %v\n", err)
	case a.verbose:
		fmt.Fprintf(a.stderr, "ration: %s stays charged: %v\n", call.Method, err)
	}
}

// disagrees reports whether an answer gives another limit or cost than
// costs.yaml.
func disagrees(err error) bool {
	_, limit := errors.AsType[*quota.LimitError](err)
	_, cost := errors.AsType[*quota.CostError](err)
	return limit || cost
}
