package quota

import (
	"context"
	"maps"
	"sync"
	"time"
)

// maxRepeated is the longest cooldown that repetition leads to.
const maxRepeated = 10 * time.Minute

// maxRepeats bounds how often a cooldown is doubled.
const maxRepeats = 20

// breakers are the circuit breakers of a Transport, one for each budget or
// account whose upstream has asked for a pause. After the cooldown, a breaker
// lets a single call through, the trial, while all others wait for its
// answer. Without it, every waiting call would pay to learn that the upstream
// still refuses. If it does, the next cooldown is longer; otherwise the
// breaker is removed.
//
// Breakers belong to one process. A claim in the ledger makes the trial the
// only one of all processes. The zero value is empty.
type breakers struct {
	mu   sync.Mutex
	open map[budgetID]*breaker
}

type breaker struct {
	id      budgetID
	since   time.Time // when the upstream last asked for a pause
	until   time.Time // when that ends, as far as this process knows
	repeats int       // how often it asked a trial again; -1 if another process was asked
	trial   *trial    // the trial in progress, or nil
}

// trialRole is the part a call plays when it meets a cooldown. The zero value
// is that of a call without breakers.
type trialRole struct {
	breakers *breakers
	trial    *trial // nil if the call is not a trial
}

// cooldownEnded is the error of a call that is not a trial and has waited
// for the end of a cooldown. The call must not be charged before the trial
// is answered.
type cooldownEnded struct{ budget, key string }

func (*cooldownEnded) Error() string { return "quota: waited for the end of a cooldown" }

// afterWait returns a *cooldownEnded if a call has waited out a cooldown, and
// the trial is not its own.
func (r trialRole) afterWait(refused *RefusedError) error {
	if r.breakers == nil || r.trial != nil || refused.Reason != ReasonCooldown {
		return nil
	}
	return &cooldownEnded{refused.Budget, refused.ownKey()}
}

// openFor opens a breaker because of a cooldown that another process has set.
func (b *breakers) openFor(id budgetID, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	breaker := b.open[id]
	if breaker == nil {
		breaker = b.add(id, since, -1)
	}
	breaker.until = time.Now()
}

func (b *breakers) add(id budgetID, since time.Time, repeats int) *breaker {
	if b.open == nil {
		b.open = map[budgetID]*breaker{}
	}
	if len(b.open) >= maxBudgetIDs { // keys that no call has come for since
		maps.DeleteFunc(b.open, func(_ budgetID, b *breaker) bool {
			return b.trial == nil &&
				time.Since(b.until) > lockExpiry
		})
	}
	b.open[id] = &breaker{id: id, since: since, repeats: repeats}
	return b.open[id]
}

// close removes the breaker of a trial, because the upstream accepts calls
// again as far as is known, and ends the trial.
func (b *breakers) close(t *trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[t.breaker.id] == t.breaker {
		delete(b.open, t.breaker.id)
	}
	t.end()
}

// awaitTrial waits, for at most maxWait, until no trial of this process is in
// progress for a breaker that covers a call, or its claim expires. If a breaker
// is still open then, the call becomes its trial, which is returned. When the
// time is up, the call gets a trial of its own, and the claim of the other
// refuses it.
func (b *breakers) awaitTrial(ctx context.Context, g *Guard, r *request, maxWait time.Duration, reported bool) *trial {
	deadline := time.Now().Add(maxWait)
	for {
		b.mu.Lock()
		breaker := b.covering(r.set, r.Key, reported)
		if breaker == nil {
			b.mu.Unlock()
			return nil
		}
		other, ours := breaker.trial, &trial{breaker: breaker, changed: make(chan struct{}), reported: reported,
			id: r.ID, repeats: -1}
		if other.isLate() {
			other.end()
			other = nil
		}
		if other == nil {
			breaker.trial = ours
			b.mu.Unlock()
			return ours
		}
		isGranted, changed := other.granted != nil, other.changed
		expires := other.expires
		b.mu.Unlock()
		left := time.Until(deadline)
		isSame := other.id == r.ID && r.ID != (ID{})
		switch {
		case isSame:
			return nil
		case isGranted && b.checkReport(ctx, g, other):
		case left > 0 && !waitsEnded(ctx):
			if isGranted {
				left = min(left, trialPoll)
			} else if !expires.IsZero() {
				left = min(left, time.Until(expires))
			}
			if sleep(ctx, left, changed) != nil {
				return nil
			}
		default:
			return ours
		}
	}
}

// covering returns an open breaker of the call's account or of a budget that
// covers the call, or nil. For a call whose answer is reported, and perhaps
// never is, a breaker is open for lockExpiry after its cooldown.
func (b *breakers) covering(set *chargeSet, key string, reported bool) *breaker {
	if len(b.open) == 0 {
		return nil
	}
	isOpen := func(breaker *breaker) bool {
		if breaker == nil || !reported {
			return breaker != nil
		}
		ended := time.Since(breaker.until)
		return ended >= 0 && ended < lockExpiry
	}
	budgets := []string{""}
	for _, charge := range set.charges {
		budgets = append(budgets, charge.Name)
	}
	for _, budget := range budgets {
		for _, key := range [...]string{"", key} {
			if breaker := b.open[budgetID{set.class.account, budget, key}]; isOpen(breaker) {
				return breaker
			}
		}
	}
	return nil
}

// finish ends a trial, which may be nil, and its claim. It is idempotent.
func (b *breakers) finish(ctx context.Context, g *Guard, t *trial) {
	if t == nil {
		return
	}
	t.release(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	t.end()
}

// observe updates the breakers by the answer to a request that was sent at a
// given time. It returns how long the cooldown should be, or 0 for none.
//
// Only a transient refusal is worth a trial and opens a breaker. A repeated one
// lengthens the cooldown, unless its request was sent before the last one came:
// then both are about the same cooldown. An answer that is not transient closes
// the breakers that cover the call.
func (b *breakers) observe(g *Guard, call Call, v *Verdict, t *trial, sent time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !v.Transient {
		b.closeCovering(g, call, sent)
		if t != nil && v.For <= 0 {
			t.passed = true
		}
	}
	if v.For <= 0 || !v.Transient {
		return v.For
	}
	id := budgetID{call.Account, v.Budget, v.KeyOf(&call)}
	length := b.lengthen(id, v, t, sent)
	if v.UpTo > 0 {
		length = v.For // which backOff has doubled
	}
	b.open[id].until = time.Now().Add(length)
	return length
}

// lengthen opens a breaker, or notes that its cooldown is repeated. It returns
// how long the cooldown should be.
func (b *breakers) lengthen(id budgetID, v *Verdict, t *trial, sent time.Time) time.Duration {
	breaker := b.open[id]
	isTrial := t != nil && t.breaker.id == id
	switch {
	case breaker == nil && isTrial && t.reported: // perhaps of another process
		breaker = b.add(id, sent, t.repeats)
	case breaker == nil:
		b.add(id, time.Now(), 0)
		return v.For
	case sent.Before(breaker.since):
		return v.For
	}
	if isTrial {
		breaker.repeats = max(breaker.repeats, t.repeats)
	}
	breaker.since = time.Now()
	breaker.repeats = min(breaker.repeats+1, maxRepeats)
	if isTrial {
		t.failed = max(1, breaker.repeats-t.repeats)
	}
	longer := min(v.For, maxRepeated) << breaker.repeats
	return max(v.For, min(longer, maxRepeated))
}

// closeCovering removes the breakers that cover a call and were opened before
// its request was sent.
func (b *breakers) closeCovering(g *Guard, call Call, sent time.Time) {
	if len(b.open) == 0 {
		return
	}
	set := g.chargesFor(&call)
	for {
		breaker := b.covering(set, call.Key, false)
		if breaker == nil || !breaker.since.Before(sent) {
			return
		}
		delete(b.open, breaker.id)
	}
}
