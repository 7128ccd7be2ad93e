package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// errNoLedger means that the ledger does not exist yet: nothing was spent.
var errNoLedger = errors.New("no ledger yet")

// clientOptions returns the options by which package client finds the ledger
// that the flags and the environment name.
func (a *app) clientOptions() *client.Options {
	o := &client.Options{Ledger: a.ledgerURL, State: a.stateDir, Report: a.report, Conceal: a.conceal, Getenv: a.getenv}
	stderr := a.stderr // knows the secrets read so far; Redact may run while others are read
	o.Redact = func(text string) string { return redact.Text(stderr, text) }
	o.Layer = a.timer.layer
	if a.reportTo != nil {
		o.Report = a.reportTo
	}
	if a.fixed {
		o.Now = a.now
	}
	return o
}

// openClient opens what table names. Without create, a ledger that does not
// exist is errNoLedger; ledgerName and unrecorded can be called all the same.
func (a *app) openClient(table *costs.Table, create bool) (*client.Client, error) {
	redis.SetLogger(silent{}) // errors say what it would write to stderr
	o := a.clientOptions()
	o.MustExist = !create
	a.reported = &reportRelay{report: o.Report}
	o.Report = a.reported.pass
	c, err := client.New(table, o)
	missing := errors.Is(err, sqliteledger.ErrNoLedger)
	if err != nil && !missing {
		return nil, err
	}
	a.opened, a.client = table, c
	if missing {
		return nil, errNoLedger
	}
	return c, nil
}

// withClient opens what table names, calls use, and closes it; see openClient.
// Errors of use that are not about the command line name the ledger.
func (a *app) withClient(table *costs.Table, create bool, use func(*client.Client) error) error {
	c, err := a.openClient(table, create)
	if err != nil {
		return err
	}
	defer c.Close()
	err = use(c)
	if exit, _ := code(err); exit != exitDone && exit != exitUsage {
		err = fmt.Errorf("%w (ledger %s)", err, c.LedgerName())
	}
	return err
}

// ledgerName returns the address of the ledger that was opened last, or that
// does not exist.
func (a *app) ledgerName() string {
	if a.client != nil {
		return a.client.LedgerName()
	}
	return client.LedgerName(a.opened, a.clientOptions())
}

// unrecorded returns what this host sent within the allowance; see
// client.Client.Unrecorded.
func (a *app) unrecorded() (quota.Units, error) {
	if a.client != nil {
		return a.client.Unrecorded()
	}
	return client.Unrecorded(a.opened, a.clientOptions())
}

// repairs returns how the ledger was restored from this host's journal; see
// client.Client.Repairs.
func (a *app) repairs() ([]journal.Repair, error) {
	if a.client != nil {
		return a.client.Repairs()
	}
	return client.Repairs(a.opened, a.clientOptions())
}

// isShowable reports whether a report can be shown in spite of an error: the
// ledger that it is about is down.
func (a *app) isShowable(err error) bool {
	exit, _ := code(err)
	return a.opened != nil && (err == nil || exit == exitLedger)
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// fetching is a Fetcher, with a Runner of it, that closes what it uses.
type fetching struct {
	*jobs.Fetcher
	runner *jobs.Runner
	door   *door // of the programs; nil if there are none
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
	c, err := a.openClient(table, true)
	if err != nil {
		return nil, err
	}
	f := &fetching{Fetcher: &jobs.Fetcher{Client: c, Config: config, Key: key, Endpoint: a.env(a.endpoint, "RATION_ENDPOINT"), Now: a.now, ClaimTime: a.claimTime}}
	if f.Environ, err = a.programEnvironment(); err != nil {
		c.Close()
		return nil, err
	}
	if err := a.openPrograms(f, table); err != nil {
		f.Close()
		return nil, err
	}
	if f.Catalog, err = catalog.Open(filepath.Join(dir, "catalog.db"), &catalog.Options{Now: a.now}); err == nil {
		f.runner, err = f.NewRunner(ctx)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openPrograms opens the gateway of the programs of regions.yaml, if it has any.
func (a *app) openPrograms(f *fetching, table *costs.Table) error {
	hasProgram := func(step jobs.Step) bool { return step.Program != nil }
	if !slices.ContainsFunc(f.Config.Regions, func(r jobs.Region) bool { return slices.ContainsFunc(r.Steps, hasProgram) }) {
		return nil
	}
	if err := a.checkCredentials(table); err != nil {
		return err
	}
	d, err := a.openPrivateDoor()
	if err != nil {
		return err
	}
	d.Use(f.Client)
	f.door, f.Gateway = d, d
	return nil
}

// Close closes the programs' gateway, the catalogue and the ledger.
func (f *fetching) Close() {
	if f.door != nil {
		f.door.close()
		f.door.Release(f.Client)
	}
	if f.Catalog != nil {
		f.Catalog.Close()
	}
	f.Client.Close()
}

// report tells what no call returns: an outage of the ledger, a correction that
// did not reach it, whose units stay charged, and an answer that contradicts
// costs.yaml.
func (a *app) report(call quota.Call, err error) {
	switch {
	case as[*client.OutageError](err):
		a.reportOutage(err)
	case as[*journal.RestoredError](err), as[*quota.ClockError](err):
		a.warn("ledger", err.Error())
	case as[*journal.UnwrittenError](err):
		a.warn("journal", err.Error())
	case disagrees(err):
		a.warn("drift", err.Error())
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
