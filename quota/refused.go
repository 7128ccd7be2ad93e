package quota

import (
	"context"

	"github.com/ration-dev/ration/internal/engine"
)

// refusedName begins the names of the records that are refusals; what follows
// is the budget, or nothing for a cooldown of the account.
const refusedName = "refused: "

// RecordRefusal records in the log that a call was refused, so that every host
// can say since when, where and for whom calls are refused. It counts in no
// budget. While the ledger is down it does nothing.
func (g *Guard) RecordRefusal(ctx context.Context, r *RefusedError) error {
	if g.outage.isDown() != nil {
		return nil
	}
	call := Call{Method: r.Method, Key: r.Key, Caller: r.Caller}
	_, err := g.Account(r.Account).Spend(ctx, &engine.Request{Kind: engine.KindNote, Force: true,
		Name: refusedName + r.Budget, Labels: g.labels(&call)})
	return opError("record a refusal of "+r.Account, err)
}
