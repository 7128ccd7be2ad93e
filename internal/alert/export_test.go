package alert

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// Impatient makes the next attempts to send follow at once.
func (w *Watch) Impatient() *Watch {
	w.pause = 0
	return w
}

// Client returns the client that is watched.
func (w *Watch) Client() *client.Client { return w.client }

// TellDown acts as if the ledger did not answer.
func (w *Watch) TellDown(ctx context.Context, account string) {
	w.ledgerDown(ctx, account, quota.ErrLedgerDown)
}
