package main

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/entries"
)

// warnUnfilled says that the history is not up to date.
func (a *app) warnUnfilled(err error) {
	if err == nil {
		return
	}
	a.warn("history", "the history is not up to date: "+err.Error())
}

// fillHistory brings the history up to date, unless another time than now
// is shown.
func (a *app) fillHistory(ctx context.Context, c *client.Client) {
	if !a.elsewhen {
		a.warnUnfilled(entries.Fill(ctx, a.setup(), c))
	}
}
