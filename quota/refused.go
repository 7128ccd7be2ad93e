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
	return opError("record a refusal of "+r.Account, g.log.recordRefusal(ctx, r))
}

// probe returns the errors with which budgets and cooldowns would refuse a
// request.
func (l *engineLog) probe(ctx context.Context, batch *Batch, r *Request) (refusals []error, err error) {
	request := l.request(batch, r, 0)
	err = l.engine.Account(batch.Account).View(ctx, func(v *engine.View) {
		refusals = nil
		for _, no := range v.Refusals(request) {
			answer := &engine.Answer{At: v.Now(), Epoch: v.Epoch(), Refusal: no}
			if no.Moved != nil {
				refusals = append(refusals, l.movedRefusal(batch, r, answer))
			} else {
				refusals = append(refusals, l.refusal(batch, r, answer))
			}
		}
	})
	return refusals, err
}

func (l *engineLog) recordRefusal(ctx context.Context, r *RefusedError) error {
	if l.outage.isDown() != nil {
		return nil
	}
	_, err := l.engine.Account(r.Account).Spend(ctx, &engine.Request{
		Kind: engine.KindNote, Force: true, Name: refusedName + r.Budget,
		Labels: engine.Labels{Method: r.Method, Key: r.Key, Host: l.options.Host,
			Lane: r.Caller.Lane, Job: r.Caller.Job, Region: r.Caller.Region},
	})
	return err
}
