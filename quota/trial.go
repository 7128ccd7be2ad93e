package quota

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// trial is a call that finds out whether the upstream accepts calls again after
// a cooldown. It holds a claim, so that it is the only trial of all processes.
// The fields after expires belong to the goroutine that makes the call.
type trial struct {
	breaker  *breaker
	reported bool // its answer is reported by a program: see Transport.SpendTogether
	id       ID   // of the call; zero if it has none of its own

	// These are guarded by breakers.mu.
	changed chan struct{} // closed when granted or expires changes, and when the trial ends
	granted *rivalClaim   // its claim, from when the answer may be reported; nil before
	expires time.Time     // when granted does, or the first claim, on this process's clock

	claimed *engine.Claim // nil while it holds no claim
	repeats int           // how often the cooldown was repeated, as the log says; -1 if it says of none
	passed  bool          // the upstream accepts calls again
	failed  int           // it refuses them: how many cooldowns in succession the log does not have yet
}

const (
	reportedOwner = "a program that reports its call" // of the claim of a trial that is reported

	trialPoll   = 100 * time.Millisecond // how often a process checks whether another's trial has ended
	trialMemory = 2 * maxRepeated        // how long the log remembers outcomes
)

// text returns the budget and the key in one text.
func (id budgetID) text() string {
	if id.key == "" {
		return id.budget
	}
	return id.budget + "\x00" + id.key
}

// trialClaim returns the name of the claim of a breaker's trial.
func (id budgetID) trialClaim() string { return reservedPrefix + "trial " + id.text() }

func (id budgetID) claimRequest() engine.ClaimRequest {
	return engine.ClaimRequest{Name: id.trialClaim(), Hold: lockExpiry, Again: trialMemory, Anew: true}
}

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
// another process's trial for as long as the call may wait.
func (g *Guard) spendTrial(ctx context.Context, r *request, as trialRole) (*Grant, error) {
	if err := g.claimTrial(ctx, r, as, time.Now().Add(r.left)); err != nil {
		return nil, err
	}
	grant, err := g.spend(ctx, r)
	if err != nil {
		as.trial.release(ctx)
	}
	return grant, err
}

// claimTrial returns nil if the call may be spent: it is not a trial, it holds
// the claim, another call's trial has passed or was never reported, or the
// ledger failed, which the spend will report. It returns a *RefusedError if a
// cooldown is in force, or if another trial may last beyond the deadline.
func (g *Guard) claimTrial(ctx context.Context, r *request, as trialRole, deadline time.Time) error {
	trial := as.trial
	for trial != nil && trial.claimed == nil {
		rival, err := trial.claim(ctx, g)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			return trial.refusal(ctx, g, r, refused)
		}
		if err == nil && rival == nil {
			as.breakers.setClaimed(trial)
		}
		if err != nil || rival == nil {
			return nil
		}
		for left := rival.left; ; left -= trialPoll {
			if time.Until(deadline) < min(left, trialPoll) || mustGiveUp(ctx, &RefusedError{}, time.Until(deadline)) {
				now, ahead, err := g.Now(ctx, r.Account)
				if err != nil {
					return nil
				}
				return trial.refusal(ctx, g, r, &RefusedError{RetryAt: now.Add(left), RetryAfter: left, Ahead: ahead,
					Detail: "another call asks whether it is over"})
			}
			if err := sleep(ctx, min(left, trialPoll), nil); err != nil {
				return err
			}
			outcome, err := rival.outcome(ctx, g)
			if err != nil {
				return nil
			}
			expired := left <= trialPoll
			isUnreported := outcome == trialPending && expired && rival.isReported
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
	of         budgetID
	id         engine.ID
	isReported bool
	left       time.Duration // until it expires
}

// trialOutcome is how the trial of a claim ended.
type trialOutcome int

const (
	trialEnded   trialOutcome = iota // without a word of whether the upstream accepts calls again, or with a refusal
	trialPending                     // it did not end yet, or its process has not said how
	trialPassed
)

// outcome returns how the trial of a claim ended.
func (r *rivalClaim) outcome(ctx context.Context, g *Guard) (outcome trialOutcome, err error) {
	err = g.Account(r.of.account).View(ctx, func(v *engine.View) {
		s := v.Claim(r.of.trialClaim())
		switch isOurs := s.ID == r.id; {
		case isOurs && (!s.Until.IsZero() || s.Lapsed):
			outcome = trialPending
		case isOurs && !s.Done.IsZero():
			outcome = trialPassed
		}
	})
	return outcome, err
}

// claim claims the trial of a breaker. It returns another process's claim if
// that is held, which lasts until it expires after lockExpiry, or
// a *RefusedError if a cooldown is in force.
func (t *trial) claim(ctx context.Context, g *Guard) (*rivalClaim, error) {
	id := t.breaker.id
	s, err := g.stopped(ctx, id.account, id.budget, id.key)
	if err != nil {
		return nil, err
	}
	if c := s.cooldown; c != nil {
		return nil, &RefusedError{Account: id.account, Key: c.Key, OfKey: c.Key != "", Budget: c.Budget,
			Reason: ReasonCooldown, Detail: c.Reason,
			RetryAt: c.Until, RetryAfter: c.Until.Sub(s.at), Ahead: s.ahead}
	}
	owner := ""
	if t.reported {
		owner = reportedOwner
	}
	request := id.claimRequest()
	request.Owner = owner
	claim, err := g.Account(id.account).Claim(ctx, request)
	if rival, ok := errors.AsType[*engine.ClaimedError](err); ok {
		return &rivalClaim{id, rival.ID, rival.Owner == reportedOwner, rival.After}, nil
	}
	if err != nil {
		return nil, err
	}
	t.claimed = claim
	t.passed, t.failed = false, 0
	t.repeats = -1
	if claim.Before.Done.IsZero() { // there is a note for each cooldown in succession
		t.repeats = min(len(claim.Before.Notes)-1, maxRepeats)
	}
	return nil, nil
}

// release ends the claim and records the outcome: a trial that failed leaves
// notes, and one that passed ends them. It is best effort: a claim whose end
// does not reach the ledger expires.
func (t *trial) release(ctx context.Context) {
	if t == nil || t.claimed == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for range t.failed {
		_ = t.claimed.Note(ctx, "refused")
	}
	if t.passed && t.failed == 0 {
		_ = t.claimed.Done(ctx)
	} else {
		_ = t.claimed.Release(ctx)
	}
	t.claimed = nil
}

// refusal returns the refusal of a call whose claim was refused.
func (t *trial) refusal(ctx context.Context, g *Guard, r *request, claim *RefusedError) *RefusedError {
	refused := newRefusal(&r.Call, t.breaker.id.budget, ReasonCooldown)
	refused.Detail, refused.Ahead = claim.Detail, claim.Ahead
	refused.OfKey = t.breaker.id.key != ""
	refused.RetryAt, refused.RetryAfter = claim.RetryAt, claim.RetryAfter
	for _, charge := range r.set.charges {
		if charge.Name != refused.Budget {
			continue
		}
		if state, err := g.state(ctx, charge, r.Key); err == nil {
			refused.setHeld(charge, &state.Held)
			refused.Needed = r.needs(charge)
			refused.OfKey = t.breaker.id.key != ""
		}
	}
	return refused
}
