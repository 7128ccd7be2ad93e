package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxTogether is the most calls that SpendTogether takes.
const MaxTogether = 1000

// SpendTogether charges count calls that are alike, 1 to MaxTogether, if all of
// them fit, and none otherwise. It returns a grant for each. Like Wait, it
// waits for at most maxWait. Calls that could never fit together are a
// *NeverFitsError. A refusal is about all of the calls.
//
// The first call is charged if the others still fit, and then the others. If
// other callers have taken that room in between, all are refunded. Calls with
// an ID that were refunded since are charged anew, all of them; those that an
// earlier request with the ID was granted stay charged, since they may be sent.
//
// It returns the errors of Spend. If calls were granted and could not be
// refunded, the error says so, and their units stay charged.
func (g *Guard) SpendTogether(ctx context.Context, call Call, count int, maxWait time.Duration) ([]*Grant, error) {
	began := g.waitBegins(maxWait)
	grants, err := g.waitAlike(ctx, call, count, maxWait, trialRole{})
	g.decided(ctx, &call, count, began, err)
	return grants, err
}

// waitAlike is SpendTogether for calls that may be the trial of a cooldown, as
// in wait.
func (g *Guard) waitAlike(ctx context.Context, call Call, count int, maxWait time.Duration, as trialRole) ([]*Grant, error) {
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
func (g *Guard) waitTogether(ctx context.Context, call Call, count int, maxWait time.Duration, as trialRole) ([]*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	set := g.chargesFor(&call)
	for _, charge := range set.charges {
		if need := Units(count) * charge.Coverage.Amount(call.Units); need > charge.Limit-charge.always() {
			return nil, &NeverFitsError{Account: call.Account, Budget: charge.Budget, Method: call.Method,
				Measure: charge.Coverage.Measure, Limit: charge.Limit, Kept: charge.always(), Needed: need, Calls: count}
		}
	}
	var grants []*Grant
	spend := func(left time.Duration) (err error) {
		grants, err = g.spendTrialTogether(ctx, &call, set, count, as, left)
		return err
	}
	if isFirst := as.trial == nil && g.queue.empty(); isFirst || maxWait <= 0 {
		if err := spend(maxWait); mustGiveUp(ctx, err, maxWait) {
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
func (g *Guard) spendTrialTogether(ctx context.Context, call *Call, set *chargeSet, count int, as trialRole, maxWait time.Duration) (grants []*Grant, err error) {
	for deadline, again := time.Now().Add(maxWait), true; again && err == nil; {
		again = false
		if err = g.claimTrial(ctx, call, set, as, deadline); err == nil {
			grants, again, err = g.spendTogether(ctx, call, set, count)
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

// spendTogether charges calls once. again means that calls were refunded, now
// or when the same id was used before.
func (g *Guard) spendTogether(ctx context.Context, call *Call, set *chargeSet, count int) (grants []*Grant, again bool, err error) {
	rest := Units(count - 1)
	charges := make([]*Charge, len(set.charges))
	for i, charge := range set.charges {
		smaller := *charge
		smaller.Beside = rest * charge.Coverage.Amount(call.Units)
		smaller.Limit -= smaller.Beside
		charges[i] = &smaller
	}
	grants, again, err = g.spendAlike(ctx, call, set, charges, 1)
	if err != nil {
		set.refusedTogether(err, call, count, rest, 0)
		return nil, again, err
	}
	others := *call
	if call.ID != (ID{}) { // of a client of their own: the ledger remembers one batch of each
		others.ID = call.ID.derived(" and others")
	}
	more, refunded, err := g.spendAlike(ctx, &others, set, set.charges, count-1)
	grants, again = append(grants, more...), again || refunded
	if err == nil && !again && !refundedSince(ctx, grants) {
		return grants, false, nil
	}
	granted := 0
	for _, grant := range slices.Backward(grants) { // a ledger refunds only what is near the end of a log (MaxSettle)
		if grant.repeated {
			continue
		}
		granted++
		if failed := grant.Refund(ctx); failed != nil {
			return nil, true, &stayedError{errors.Join(err, fmt.Errorf("some of the calls stay charged: %w", failed))}
		}
	}
	set.refusedTogether(err, call, count, 0, Units(granted))
	if errors.Is(err, ErrLedgerDown) { // its allowance granted some
		err = fmt.Errorf("%d calls together: %w", count, err)
	}
	return nil, !errors.Is(err, ErrReused), err
}

// stayedError is the error of calls together of which some were granted and
// could not be refunded.
type stayedError struct{ error }

// Unwrap returns the error of the calls, if any, and of the refund.
func (e *stayedError) Unwrap() error { return e.error }

// refusedTogether makes the refusal of one call one of count calls. Its limits
// lack what kept calls need, and what it says is used includes granted ones,
// refunded since.
func (s *chargeSet) refusedTogether(err error, call *Call, count int, kept, granted Units) {
	refused, _ := errors.AsType[*RefusedError](err)
	never, _ := errors.AsType[*NeverFitsError](err)
	for _, charge := range s.charges {
		each := charge.Coverage.Amount(call.Units)
		switch {
		case refused != nil && charge.Budget == refused.Budget:
			refused.Needed = Units(count) * each
			if refused.Limit == 0 {
				continue // the ledger could not say what it holds
			}
			refused.Limit += kept * each
			refused.Used -= granted * each
			refused.Remaining = max(0, refused.Limit-refused.Used-refused.Kept)
			if refused.OwnLimit > 0 {
				refused.OwnLimit = charge.Limit
			}
		case never != nil && charge.Budget == never.Budget:
			never.Limit += kept * each
			never.Needed, never.Calls = Units(count)*each, count
			if never.OwnLimit > 0 {
				never.OwnLimit = charge.Limit
			}
		}
	}
}

// spendAlike charges calls in one batch, with charges in place of those of set.
// If one is refused, or has the id of another call, it returns the grants of
// the others and the error. refunded means that a call with the same id was
// refunded before.
func (g *Guard) spendAlike(ctx context.Context, call *Call, set *chargeSet, charges []*Charge, count int) (grants []*Grant, refunded bool, err error) {
	batch := &Batch{Account: call.Account, Key: call.Key, Client: call.ID.Client, Seq: call.ID.Seq, Once: call.ID != (ID{}), History: set.history, Upstream: g.upstream, Requests: make([]Request, count)}
	for i := range batch.Requests {
		batch.Requests[i] = Request{Method: call.Method, Units: call.Units, Caller: call.Caller, Charges: charges}
	}
	if g.refusals.on {
		batch.Clock = time.Now()
	}
	answers, err := g.decide(ledgerContext(ctx), batch)
	if err != nil {
		return nil, false, opError("spend "+call.Method, err)
	}
	for _, answer := range answers {
		if answer.Err != nil {
			err = cmp.Or(err, refusalFor(call, answer.Err))
			continue
		}
		grant := &Grant{guard: g, set: set, job: call.Caller.Job, receipt: answer.Receipt, held: answer.Held, units: call.Units}
		if reused := grant.checkRepeated(ctx, call); reused != nil {
			err = cmp.Or(err, reused)
			continue
		}
		grants, refunded = append(grants, grant), refunded || grant.refunded
	}
	return grants, refunded, err
}
