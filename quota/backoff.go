package quota

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// Refusals that do not say how long to pause are kept in a reserved keyed log
// of the account, so that the pause doubles whichever process is refused, one
// that cron has just started too. An entry's units are how many there were in
// succession.
const (
	refusalKey    = reservedPrefix + "refusals"
	refusalMethod = "refusal"

	refusalGap     = 2 * time.Hour    // a refusal later than this after a pause, or twice its length, begins anew
	answerTime     = 10 * time.Second // a call granted longer ago has its answer
	maxRefusals    = 40               // more in succession do not lengthen the pause
	refusalHistory = 3                // times the longest pause
)

// backOff returns the pause that a refusal asks for which does not say how
// long: v.For, doubled for each refusal before it, up to v.UpTo. A refusal of a
// call that was granted before the last refusal is about the same pause. One
// after a call that was not refused begins anew. It is best effort: without
// the ledger, it returns v.For.
func (g *Guard) backOff(ctx context.Context, call Call, grant *Grant, v *Verdict) time.Duration {
	ctx = context.WithoutCancel(ctx)
	caller := Caller{Lane: externalLane, Job: textfmt.Cut(v.Budget, MaxLabel)}
	standings, err := g.cooldownStandings(ctx, call.Account, "", v.Budget)
	if err != nil {
		return v.For
	}
	now := standings[0].At
	last, count := g.lastRefusal(ctx, call.Account, caller, now, v)
	if count > 0 {
		pause := doubled(v, count)
		ends := last.Add(pause)
		wasGranted := now
		if grant != nil && !grant.receipt.At.IsZero() {
			wasGranted = grant.receipt.At
		}
		switch {
		case last.After(wasGranted):
			return max(ends.Sub(now), time.Millisecond)
		case now.Sub(ends) > max(refusalGap, 2*pause),
			g.passedBetween(ctx, call.Account, v.Budget, ends, now.Add(-answerTime)):
			count = 0
		}
	}
	count = min(count+1, maxRefusals)
	request := Request{Method: refusalMethod, Caller: caller, Units: count,
		Charges: []*Charge{{
			Budget: v.Budget, Coverage: NewCoverage(Coverage{}), Limit: MaxUnits, Window: Sliding(refusalWindow(v)),
		}}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: call.Account, Key: refusalKey, Requests: []Request{request}})
	if err != nil {
		return v.For
	}
	if refused, ok := errors.AsType[*RefusedError](answers[0].Err); ok { // another process has set the pause
		return max(refused.RetryAfter, time.Millisecond)
	}
	return doubled(v, count)
}

// refusalWindow is how long the log keeps refusals.
func refusalWindow(v *Verdict) time.Duration {
	return min(max(refusalHistory*v.UpTo, 2*refusalGap), MaxHistory).Truncate(time.Second)
}

// doubled returns the pause after a number of refusals in succession.
func doubled(v *Verdict, count Units) time.Duration {
	pause := v.For
	for ; count > 1 && pause < v.UpTo; count-- {
		pause *= 2
	}
	return max(v.For, min(pause, v.UpTo))
}

// lastRefusal returns when the last refusal of a budget was, and how many there
// were in succession; 0 if there was none.
func (g *Guard) lastRefusal(
	ctx context.Context, account string, caller Caller, now time.Time, v *Verdict,
) (at time.Time, count Units) {
	query := Query{Account: account, Key: refusalKey, Since: now.Add(-refusalWindow(v)), Newest: true}
	for entry, err := range g.ledger.Entries(ctx, query) {
		if err != nil {
			return at, 0
		}
		if entry.Caller == caller && entry.Calls > 0 {
			return entry.At, entry.Units
		}
	}
	return at, 0
}

// passedBetween reports whether a call of a budget was granted between two
// times. Had it been refused, there would be a later refusal.
func (g *Guard) passedBetween(ctx context.Context, account, budget string, since, until time.Time) bool {
	if !since.Before(until) {
		return false
	}
	charge := g.chargeOf(account, budget)
	for entry, err := range g.ledger.Entries(ctx, Query{Account: account, Since: since, Until: until, Newest: true}) {
		if err != nil {
			return false
		}
		isCovered := charge == nil || charge.Coverage.Covers(entry.Method, entry.Caller)
		if entry.Kind == EntryCall && entry.Calls > 0 && isCovered {
			return true
		}
	}
	return false
}
