package quota

import (
	"context"
	"errors"
	"time"
)

// probe is the call that finds out whether a stop is over. One call of all
// processes on the ledger is: it holds a claim, an entry in a reserved keyed
// log of the account. Its fields below ended belong to the goroutine that
// makes the call.
type probe struct {
	stop  *stop
	ended chan struct{}

	claimed *Receipt // nil while it holds no claim
	repeats int      // of the stop, as the log says; -1 when it does not know the stop
	outcome Units    // probeOver, probeStopped or more, or 0 when the answer did not say
}

const (
	probeKey    = reservedKeys + "probes"
	probeMethod = "probe"
	probePoll   = 100 * time.Millisecond // how often a process looks whether another's probe has ended
	probeMemory = 2 * maxLonger          // how long the log says how often a stop was repeated
)

// The units of a claim say what became of it. A refunded claim ended without
// an answer that says whether the stop is over.
const (
	probePending Units = 1
	probeOver    Units = 2
	probeStopped Units = 3 // and one more for each repeat
)

// spendProbing spends as spend does. A probe, which may be nil, claims its stop
// before, and waits for another process's probe for at most limit.
func (g *Guard) spendProbing(ctx context.Context, call *Call, plan *plan, by probing, limit time.Duration) (*Grant, error) {
	if by.probe == nil {
		return g.spend(ctx, call, plan, manner{})
	}
	if err := g.claimProbe(ctx, call, plan, by, time.Now().Add(limit)); err != nil {
		return nil, err
	}
	grant, err := g.spend(ctx, call, plan, manner{})
	if err != nil {
		by.probe.release(ctx, g)
	}
	return grant, err
}

// claimProbe returns nil when the call may be spent: it has claimed the probe,
// another process's probe found that the stop is over, or the ledger failed,
// which the spend then reports. A *RefusedError says that a
// cooldown holds, or that another's probe may last beyond the deadline.
func (g *Guard) claimProbe(ctx context.Context, call *Call, plan *plan, by probing, deadline time.Time) error {
	for by.probe.claimed == nil {
		rival, err := by.probe.claim(ctx, g)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			return by.probe.refusal(call, plan, refused)
		}
		if err != nil || rival == nil {
			return nil
		}
		for left := rival.lapses; ; left -= probePoll {
			if time.Until(deadline) < min(left, probePoll) || beyond(ctx, &RefusedError{}, time.Until(deadline)) {
				return by.probe.refusal(call, plan, &RefusedError{RetryAt: rival.entry.At.Add(claimTime), RetryAfter: left, Detail: "another process asks whether it is over"})
			}
			if err := sleep(ctx, min(left, probePoll), nil); err != nil {
				return err
			}
			outcome, err := rival.outcome(ctx, g, by.probe.stop.name.account)
			if err != nil {
				return nil
			}
			if outcome == probeOver {
				by.stops.lift(by.probe)
				return nil
			}
			if outcome != probePending || left <= probePoll {
				break
			}
		}
	}
	return nil
}

// rival is an earlier claim of the same stop.
type rival struct {
	entry  Entry
	lapses time.Duration // from when it was met
}

// outcome returns the units of the claim, or 0 when it is refunded or gone.
func (r *rival) outcome(ctx context.Context, g *Guard, account string) (Units, error) {
	for entry, err := range g.ledger.Entries(ctx, Query{Account: account, Key: probeKey, Since: r.entry.At, Until: r.entry.At.Add(time.Microsecond)}) {
		if err != nil {
			return 0, err
		}
		if entry.Calls > 0 {
			return entry.Units, nil
		}
	}
	return 0, nil
}

// claim claims the probe of a stop: of the claims in the log that are neither
// answered nor refunded the first has it, for claimTime at most. If it is
// another's, claim takes back its own and returns that one. While a cooldown
// holds, the ledger refuses the claim.
func (p *probe) claim(ctx context.Context, g *Guard) (*rival, error) {
	name := p.stop.name
	caller := Caller{Lane: reportedLane, Job: cut(name.budget, MaxLabel)}
	request := Request{Method: probeMethod, Caller: caller, Units: probePending,
		Charges: []*Charge{{Budget: name.budget, Coverage: NewCoverage(Coverage{}), Limit: MaxUnits, Window: Sliding(probeMemory)}}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: name.account, Key: probeKey, Requests: []Request{request}})
	if err != nil {
		return nil, err
	}
	if answers[0].Err != nil {
		return nil, answers[0].Err
	}
	ours := answers[0].Receipt
	var first *rival
	p.claimed, p.repeats, p.outcome = &ours, -1, 0
	for entry, err := range g.ledger.Entries(ctx, Query{Account: name.account, Key: probeKey, Since: ours.At.Add(-probeMemory), Until: ours.At}) {
		if err != nil {
			p.release(ctx, g)
			return nil, err
		}
		lapses := claimTime - ours.At.Sub(entry.At)
		switch {
		case entry.Calls == 0 || entry.Caller != caller:
		case entry.Units != probePending:
			p.repeats = int(entry.Units - probeStopped)
		case first == nil && lapses > 0:
			first = &rival{entry, lapses}
		}
	}
	if first != nil {
		p.release(ctx, g)
	}
	return first, nil
}

// release ends the claim with what the answer said. A claim that the ledger
// does not hear the end of lapses.
func (p *probe) release(ctx context.Context, g *Guard) {
	if p.claimed == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if p.outcome == 0 {
		g.ledger.Refund(ctx, *p.claimed)
	} else {
		g.ledger.Settle(ctx, *p.claimed, p.outcome)
	}
	p.claimed = nil
}

// refusal says to call what refused its claim.
func (p *probe) refusal(call *Call, plan *plan, why *RefusedError) *RefusedError {
	refused := &RefusedError{Account: call.Account, Key: call.Key, Budget: p.stop.name.budget, Method: call.Method, Units: call.Units, Caller: call.Caller, Reason: ReasonCooldown,
		Detail: why.Detail, Needed: call.Units, RetryAt: why.RetryAt, RetryAfter: why.RetryAfter, Ahead: why.Ahead}
	for _, charge := range plan.charges {
		if charge.Budget == refused.Budget {
			refused.Measure, refused.Limit = charge.Coverage.Measure, charge.Limit
			refused.Needed = charge.Coverage.Amount(call.Units)
		}
	}
	return refused
}
