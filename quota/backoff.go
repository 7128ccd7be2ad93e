package quota

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

const (
	refusalGap  = 2 * time.Hour    // a refusal later than this after a pause, or twice its length, begins anew
	answerTime  = 10 * time.Second // a call granted longer ago has its answer
	maxRefusals = 40               // more in succession do not lengthen the pause
)

// backOff returns the pause that a refusal asks for which does not say how
// long: v.For, doubled for each refusal before it, up to v.UpTo. A refusal of a
// call that was granted before the last refusal is about the same pause. One
// after a call that was not refused begins anew. The log's cooldowns say how
// many there were, so that it doubles whichever process is refused, one that
// cron has just started too. It is best effort: without the ledger, it returns
// v.For.
func (g *Guard) backOff(ctx context.Context, call Call, grant *Grant, v *Verdict) (pause time.Duration, repeats int64) {
	ctx = context.WithoutCancel(ctx)
	var last engine.Record
	var now time.Time
	err := g.Account(call.Account).View(ctx, func(view *engine.View) {
		last, _ = view.LastCooldown(v.Budget, v.KeyOf(&call))
		now = ledgerTime(view.Now())
	})
	if err != nil {
		return v.For, 0
	}
	count := last.Value
	if count > 0 {
		began, ends := ledgerTime(last.At), ledgerTime(last.Until)
		wasGranted := now
		if grant != nil && !grant.at.IsZero() {
			wasGranted = grant.at
		}
		switch {
		case began.After(wasGranted):
			return max(ends.Sub(now), time.Millisecond), count
		case now.Sub(ends) > max(refusalGap, 2*ends.Sub(began)),
			g.passedBetween(ctx, budgetID{call.Account, v.Budget, v.KeyOf(&call)}, ends, now.Add(-answerTime)):
			count = 0
		}
	}
	count = min(count+1, maxRefusals)
	return doubled(v, count), count
}

// doubled returns the pause after a number of refusals in succession.
func doubled(v *Verdict, count int64) time.Duration {
	pause := v.For
	for ; count > 1 && pause < v.UpTo; count-- {
		pause *= 2
	}
	return max(v.For, min(pause, v.UpTo))
}

// passedBetween reports whether a call of a budget was granted between two
// times. Had it been refused, there would be a later refusal.
func (g *Guard) passedBetween(ctx context.Context, id budgetID, since, until time.Time) bool {
	if !since.Before(until) {
		return false
	}
	charge := g.chargeOf(id.account, id.budget)
	for entry, err := range g.Entries(ctx, Query{Account: id.account, Key: id.key, Since: since, Until: until,
		Newest: true}) {
		if err != nil {
			return false
		}
		isCovered := charge == nil || charge.coverage.Covers(entry.Method, entry.Caller.Lane, entry.Caller.Region)
		if entry.Kind == EntryCall && entry.Calls > 0 && isCovered {
			return true
		}
	}
	return false
}
