package quota

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// trial is a call that finds out whether the upstream accepts calls again after
// a cooldown. It holds a claim, an entry in a reserved keyed log of the
// account, so that it is the only trial of all processes. The fields after
// expires belong to the goroutine that makes the call.
type trial struct {
	breaker  *breaker
	reported bool // its answer is reported by a program: see Transport.SpendTogether
	id       ID   // of the call; zero if it has none of its own

	// These are guarded by breakers.mu.
	changed chan struct{} // closed when granted or expires changes, and when the trial ends
	granted *rivalClaim   // its claim, from when the answer may be reported; nil before
	expires time.Time     // when granted does, or the first claim, on this process's clock

	claimed *Receipt // nil while it holds no claim
	repeats int      // of the cooldown, as the log says; -1 if the log does not say
	outcome Units    // trialPassed, trialFailed or more, or 0 if the answer did not say
}

// How the claims and outcomes of trials are stored. Processes with other names
// would not see each other's.
const (
	trialKey            = reservedPrefix + "probes"
	trialMethod         = "probe"
	reportedTrialMethod = "reported probe"
)

const (
	trialPoll   = 100 * time.Millisecond // how often a process checks whether another's trial has ended
	trialMemory = 2 * maxRepeated        // how long the log remembers outcomes
)

// The units of a claim say how its trial ended. A claim is refunded if the
// answer did not say whether the upstream accepts calls again.
const (
	trialPending Units = 1
	trialPassed  Units = 2
	trialFailed  Units = 3 // and one more for each repeat
)

// end ends the trial for the other calls of this process. It is idempotent. The
// caller holds breakers.mu.
func (t *trial) end() {
	if t.breaker.trial == t {
		t.breaker.trial = nil
		close(t.changed)
	}
}

// isLate reports whether the answer takes longer than others wait for it. One
// that is reported is also looked for in the ledger, by checkReport. The caller
// holds breakers.mu.
func (t *trial) isLate() bool {
	if t == nil || t.granted != nil || t.expires.IsZero() {
		return false
	}
	return !time.Now().Before(t.expires)
}

// setClaimed lets the other calls of this process wait for a trial as long as
// other processes do, from its first claim on.
func (b *breakers) setClaimed(t *trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.breaker.trial != t || !t.expires.IsZero() {
		return
	}
	t.expires = time.Now().Add(lockExpiry)
	t.wake()
}

// wake makes the calls that wait for the trial look at it again. The caller
// holds breakers.mu.
func (t *trial) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// spendTrial spends like spend. A trial first claims its breaker, and waits for
// another process's trial for at most maxWait.
func (g *Guard) spendTrial(ctx context.Context, call *Call, set *chargeSet, as trialRole, maxWait time.Duration) (*Grant, error) {
	if err := g.claimTrial(ctx, call, set, as, time.Now().Add(maxWait)); err != nil {
		return nil, err
	}
	grant, err := g.spend(ctx, call, set, entryMode{})
	if err != nil {
		as.trial.release(ctx, g)
	}
	return grant, err
}

// claimTrial returns nil if the call may be spent: it is not a trial, it holds
// the claim, another call's trial has passed or was never reported, or the
// ledger failed, which the spend will report. It returns a *RefusedError if a
// cooldown is in force, or if another trial may last beyond the deadline.
func (g *Guard) claimTrial(ctx context.Context, call *Call, set *chargeSet, as trialRole, deadline time.Time) error {
	trial := as.trial
	for trial != nil && trial.claimed == nil {
		rival, err := trial.claim(ctx, g)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			if _, moves := refused.Move(); moves {
				return refusalFor(call, refused)
			}
			return trial.refusal(ctx, g, call, set, refused)
		}
		if err == nil && rival == nil {
			as.breakers.setClaimed(trial)
		}
		if err != nil || rival == nil {
			return nil
		}
		for left := rival.left; ; left -= trialPoll {
			if time.Until(deadline) < min(left, trialPoll) || mustGiveUp(ctx, &RefusedError{}, time.Until(deadline)) {
				standings, err := g.cooldownStandings(ctx, trial.breaker.id.account, trialKey, "")
				if err != nil {
					return nil
				}
				return trial.refusal(ctx, g, call, set, &RefusedError{RetryAt: standings[0].At.Add(left), RetryAfter: left,
					Ahead: standings[0].Ahead, Detail: "another call asks whether it is over"})
			}
			if err := sleep(ctx, min(left, trialPoll), nil); err != nil {
				return err
			}
			outcome, err := rival.outcome(ctx, g, trial.breaker.id.account)
			if err != nil {
				return nil
			}
			expired := left <= trialPoll
			isUnreported := outcome == trialPending && expired && rival.entry.Method == reportedTrialMethod
			if outcome == trialPassed || isUnreported {
				as.breakers.close(trial)
				return nil
			}
			if outcome != trialPending || expired {
				break
			}
		}
	}
	return nil
}

// rivalClaim is an earlier claim of the same breaker.
type rivalClaim struct {
	entry Entry
	left  time.Duration // until it expires
}

// outcome returns the units of the claim, or 0 if it was refunded or is gone.
func (r *rivalClaim) outcome(ctx context.Context, g *Guard, account string) (Units, error) {
	for entry, err := range g.log.Entries(ctx, Query{Account: account, Key: trialKey, Since: r.entry.At, Until: r.entry.At.Add(time.Microsecond)}) {
		if err != nil {
			return 0, err
		}
		if entry.Calls > 0 {
			return entry.Units, nil
		}
	}
	return 0, nil
}

// claim claims the trial of a breaker. Among the claims that are pending, the
// oldest one holds, until it expires after lockExpiry. If that is another
// process's, claim refunds its own and returns the other. The ledger refuses a
// claim while the cooldown is in force.
func (t *trial) claim(ctx context.Context, g *Guard) (*rivalClaim, error) {
	id := t.breaker.id
	caller := Caller{Lane: externalLane, Job: textfmt.Cut(id.budget, MaxLabel)}
	method := trialMethod
	if t.reported {
		method = reportedTrialMethod
	}
	request := Request{Method: method, Caller: caller, Units: trialPending,
		Charges: []*Charge{{Budget: id.budget, Coverage: NewCoverage(Coverage{}), Limit: MaxUnits, Window: Sliding(trialMemory)}}}
	answers, err := g.log.Spend(ctx, &Batch{Account: id.account, Key: trialKey, Requests: []Request{request}})
	if err != nil {
		return nil, err
	}
	if answers[0].Err != nil {
		return nil, answers[0].Err
	}
	ours := answers[0].Receipt
	t.claimed = &ours
	t.repeats, t.outcome = -1, 0
	var rival *rivalClaim
	for entry, err := range g.log.Entries(ctx, Query{Account: id.account, Key: trialKey, Since: ours.At.Add(-trialMemory), Until: ours.At}) {
		if err != nil {
			t.release(ctx, g)
			return nil, err
		}
		left := lockExpiry - ours.At.Sub(entry.At)
		switch {
		case entry.Calls == 0 || entry.Caller != caller:
		case entry.Units != trialPending:
			t.repeats = int(entry.Units - trialFailed)
		case rival == nil && left > 0:
			rival = &rivalClaim{entry, left}
		}
	}
	if rival != nil {
		t.release(ctx, g)
	}
	return rival, nil
}

// release ends the claim and records the outcome. It is best effort: a claim
// whose end does not reach the ledger expires.
func (t *trial) release(ctx context.Context, g *Guard) {
	if t == nil || t.claimed == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if t.outcome == 0 {
		g.log.Refund(ctx, *t.claimed)
	} else {
		g.log.Settle(ctx, *t.claimed, t.outcome)
	}
	t.claimed = nil
}

// refusal returns the refusal of a call whose claim was refused.
func (t *trial) refusal(ctx context.Context, g *Guard, call *Call, set *chargeSet, claim *RefusedError) *RefusedError {
	refused := newRefusal(call, t.breaker.id.budget, ReasonCooldown)
	refused.Detail, refused.Ahead = claim.Detail, claim.Ahead
	refused.RetryAt, refused.RetryAfter = claim.RetryAt, claim.RetryAfter
	for _, charge := range set.charges {
		if charge.Budget != refused.Budget {
			continue
		}
		if states, err := g.states(ctx, call.Account, call.Key, []*Charge{charge}); err == nil {
			refused.setAmounts(call, charge, &states[0])
		}
	}
	return refused
}
