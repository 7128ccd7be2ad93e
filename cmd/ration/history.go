package main

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/history"
)

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
	return history.Update(ctx, store, c, a.now())
}

// warnUnfilled says that the history is not up to date.
func (a *app) warnUnfilled(err error) {
	if err == nil {
		return
	}
	a.warn("history", "the history is not up to date: "+err.Error())
}
