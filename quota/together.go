package quota

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxTogether is the most calls that SpendTogether takes.
const MaxTogether = 1000

// SpendTogether charges count calls that are alike, 1 to MaxTogether, if all of
// them fit, and none otherwise. It returns a grant for each. Like Wait, it
// waits for at most maxWait. Calls that could never fit together are a
// *NeverFitsError. A refusal is about all of the calls.
//
// Calls with an ID that were refunded since are charged anew, all of them. It
// returns the errors of Spend.
func (g *Guard) SpendTogether(ctx context.Context, call Call, count int, maxWait time.Duration) ([]*Grant, error) {
	began := g.waitBegins(maxWait)
	grants, err := g.waitAlike(ctx, call, count, maxWait, trialRole{})
	g.decided(ctx, &call, count, began, err)
	return grants, err
}

// waitAlike is SpendTogether for calls that may be the trial of a cooldown, as
// in wait.
func (g *Guard) waitAlike(ctx context.Context, call Call, count int, maxWait time.Duration, as trialRole) ([]*Grant,
	error) {
	switch {
	case count < 1 || count > MaxTogether:
		return nil, fmt.Errorf("%w: %d calls together; give 1 to %d", ErrBadCall, count, MaxTogether)
	case count > 1:
		return g.waitTogether(ctx, call, count, maxWait, as)
	}
	grant, err := g.wait(ctx, call, maxWait, as)
	if err != nil {
		return nil, err
	}
	return []*Grant{grant}, nil
}

// waitTogether is waitAlike for several calls.
func (g *Guard) waitTogether(ctx context.Context, call Call, count int, maxWait time.Duration, as trialRole) ([]*Grant,
	error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	set := g.chargesFor(&call)
	if err := set.check(&call, count); err != nil {
		return nil, err
	}
	var grants []*Grant
	spend := func(at *place) (err error) {
		grants, err = g.spendTrialTogether(ctx, &call, set, count, as, at)
		return err
	}
	if isFirst := as.trial == nil && g.queue.empty(); isFirst || maxWait <= 0 {
		if err := spend(&place{}); mustGiveUp(ctx, err, maxWait) {
			return grants, err
		}
	}
	err := g.waitInQueue(ctx, &call, set, time.Now().Add(maxWait), as, spend)
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Reason == ReasonQueue {
		refused.Needed *= Units(count)
	}
	return grants, err
}

// spendTrialTogether is spendTrial for several calls. If the ledger remembers
// calls under this id that were refunded, it gives call another one.
func (g *Guard) spendTrialTogether(ctx context.Context, call *Call, set *chargeSet, count int, as trialRole,
	at *place) (grants []*Grant, err error) {
	for deadline, again := time.Now().Add(at.left), true; again && err == nil; {
		again = false
		if err = g.claimTrial(ctx, call, set, as, deadline); err == nil {
			grants, again, err = g.spendTogether(ctx, call, set, count, at)
		}
		if err != nil {
			as.trial.release(ctx, g)
		}
		if again && call.ID != (ID{}) {
			call.ID = call.ID.derived("")
		}
	}
	return grants, err
}

// spendTogether charges calls in one step. again means that an earlier request
// with the same id was granted, and the calls were refunded since.
func (g *Guard) spendTogether(ctx context.Context, call *Call, set *chargeSet, count int, at *place) (grants []*Grant,
	again bool, err error) {
	if err := g.takeOwn(ctx, call, set, count); err != nil {
		return nil, false, err
	}
	defer func() { g.giveBackOwn(call, set, count, err) }()
	request := requestOf(call, set.charges)
	request.Together, request.place = count, at
	batch := &Batch{Account: call.Account, Key: call.Key, Client: call.ID.Client, Seq: call.ID.Seq,
		Once: call.ID != (ID{}), History: set.history, Requests: []Request{request}}
	answers, err := g.log.Spend(ledgerContext(ctx), batch)
	if err != nil {
		return nil, false, opError("spend "+call.Method, err)
	}
	answer := &answers[0]
	if answer.Err != nil {
		return nil, false, refusalFor(call, answer.Err)
	}
	for i, id := range append([]ID{answer.Receipt.ID}, answer.Others...) {
		grant := &Grant{guard: g, set: set, job: call.Caller.Job, units: call.Units,
			measures: call.Measures, isOpen: call.Lease > 0 || set.lease > 0, receipt: answer.Receipt,
			held: answer.Held}
		grant.receipt.ID, grant.receipt.At = id, answer.Receipt.At.Add(time.Duration(i)*time.Microsecond)
		if i < len(answer.Repeated) {
			isRefunded := grant.repeat(answer.Repeated[i])
			again = again || isRefunded
		}
		grants = append(grants, grant)
	}
	return grants, again, nil
}
