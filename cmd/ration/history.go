package main

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/history"
)

// fillTimeout is the longest time that a command spends on the history.
const fillTimeout = 30 * time.Second

// fillHistory brings the history up to date. The catalogue is made if there is
// none: the history is kept there, even without a regions.yaml. While the ledger
// is down nothing can be filled, which is not an error.
func (a *app) fillHistory(ctx context.Context, c *client.Client) error {
	if a.elsewhen {
		return nil
	}
	store, err := a.setup().OpenCatalog()
	if err != nil {
		return err
	}
	defer store.Close()
	return a.fillStore(ctx, store, c)
}

// fillStore is fillHistory with a catalogue that is open.
func (a *app) fillStore(ctx context.Context, store *catalog.Catalog, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	table := c.Table()
	err := history.Fill(ctx, store, c.Guard(), table.Accounts())
	if isLedgerError(err) {
		err = nil
	}
	return errors.Join(err, history.AddRefusals(ctx, store, c.State(), table.Budgets(), a.now()))
}

// warnUnfilled says that the history is not up to date.
func (a *app) warnUnfilled(err error) {
	if err == nil {
		return
	}
	a.warn("history", "the history is not up to date: "+err.Error())
}

// fillPause is how often serve fills the history when no pass does: others may
// spend through the gateway, and the shortest log keeps its entries for minutes.
const fillPause = time.Minute

// keepHistory fills the history now and then, until stop is called.
func (p *passes) keepHistory() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(fillPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.fillHistory(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// fillHistory brings the history up to date, and logs why it cannot.
func (p *passes) fillHistory(ctx context.Context) {
	if err := p.fillStore(ctx, p.Catalog, p.Client); err != nil && ctx.Err() == nil {
		p.log.Warn("the history is not up to date", "reason", err.Error())
	}
}
