package quota

import (
	"context"

	"github.com/ration-dev/ration/internal/engine"
)

// AcceptLoss declares the log of an account complete as it is, for a ledger
// that was emptied on purpose: what is older than now is not restored by any
// host. Units that the log lacks are free again; the upstream still counts
// them.
func (g *Guard) AcceptLoss(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	labels := engine.Labels{Method: acceptLoss, Lane: LaneManual}
	return opError("accept the loss of "+account, g.Account(account).AcceptLoss(ctx, labels))
}
