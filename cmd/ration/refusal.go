package main

import (
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// refusal is the last refusal that ended a command.
type refusal = client.Refusal

// keepRefusal records the refusal that ended a command, for why.
func (a *app) keepRefusal(err error) {
	if a.client != nil {
		a.client.RecordRefusal(err)
	}
}

// refusedAt returns when a call was refused, by the ledger's clock.
func (a *app) refusedAt(r *quota.RefusedError) time.Time { return client.RefusedAt(r, a.now) }

// readRefusal returns the last refusal, and nil when none is known.
func (a *app) readRefusal() (*refusal, error) {
	dir, err := a.state()
	if err != nil {
		return nil, err
	}
	return client.LastRefusal(dir)
}
