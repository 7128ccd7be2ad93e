package quota

import "context"

// AcceptLoss declares the log of an account complete as it is, for a ledger
// that was emptied on purpose: what is older than now is not restored by any
// host. Units that the log lacks are free again; the upstream still counts them.
func (g *Guard) AcceptLoss(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	note := Request{Method: acceptLoss, Caller: Caller{Lane: LaneManual}, Force: true, Kind: EntryNote}
	_, err := g.log.Spend(ctx, &Batch{Account: account, Requests: []Request{note}})
	return opError("accept the loss of "+account, err)
}
