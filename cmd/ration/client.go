package main

import (
	"errors"
	"fmt"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

// setup returns what opens the files and the ledger that flags and environment
// name. Flags and the clock are read by then.
func (a *app) setup() *setup.Setup {
	if a.place != nil {
		return a.place
	}
	a.place = &setup.Setup{Folder: a.configDir, Ledger: a.ledgerURL, State: a.stateDir, Endpoint: a.endpoint,
		ClaimTime: a.claimTime, MaxShare: a.maxShare,
		Version: cli.ReadBuild().Version, Getenv: a.getenv, Now: a.now, Fixed: a.fixed, Conceal: a.secrets.Hide,
		Redact: a.secrets.Text, Clean: cli.RedactMessage, Report: a.report, Documents: a.documents,
		ConcealProxies: func() {
			for _, secret := range cli.ProxyPasswords(a.getenv) {
				a.secrets.Hide(secret)
			}
		}}
	return a.place
}

// withClient opens the client of table, as setup.Setup.Open does, calls use
// with it, and closes it. It adds the ledger's name to an error of use, unless
// that is about the command line. It warns if the ledger is gone.
func (a *app) withClient(table *costs.Table, create bool, use func(*client.Client) error) error {
	c, err := a.setup().Open(table, create)
	if errors.Is(err, setup.ErrNoLedger) {
		a.forgotten = a.warnOfLoss()
	}
	if err != nil {
		return err
	}
	defer c.Close()
	err = use(c)
	if exit, _ := code(err); exit != exitDone && exit != exitUsage {
		err = client.NameLedger(err, c.LedgerName())
	}
	return err
}

// readLedger is withClient for costs.yaml's prices and a ledger that exists.
func (a *app) readLedger(use func(*client.Client) error) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	return a.withClient(table, false, use)
}

// withAccounts calls use with the client of costs.yaml and the names of all
// accounts, or of the one that is given. It may create the ledger.
func (a *app) withAccounts(account string, create bool, use func(c *client.Client, names []string) error) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	names, err := cli.Accounts(table, account)
	if err != nil {
		return err
	}
	return a.withClient(table, create, func(c *client.Client) error { return use(c, names) })
}

// isShowable reports whether a report can be shown in spite of an error: the
// ledger that it is about is down.
func (a *app) isShowable(err error) bool {
	exit, _ := code(err)
	return a.setup().Opened != nil && (err == nil || exit == exitLedger)
}

// report writes what no call returns: an outage of the ledger, a correction
// that did not reach it, whose units stay charged, and an answer that
// contradicts costs.yaml.
func (a *app) report(call quota.Call, err error) {
	switch {
	case as[*client.OutageError](err):
		a.reportOutage(err)
	case as[*client.RestoredError](err):
		a.warn("ledger", err.Error())
	case as[*client.ReplicaError](err):
		a.warn("replica", err.Error())
	case setup.Disagrees(err):
		a.warn("drift", err.Error())
	case a.verbose:
		a.warn("ledger", fmt.Sprintf("%s stays charged: %v", call.Method, err))
	}
}
