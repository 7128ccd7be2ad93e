package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// knownState is what this host knows of a request and its budgets.
type knownState struct {
	now      time.Time
	ids      []ID    // of its calls: those of the request, unless they were refunded before
	repeats  []Entry // of each call that was granted before, and counts
	moved    *Move
	cooldown *Cooldown
	left     []Units            // of each charge
	counted  map[engine.ID]bool // grants of the outage that left takes into account
}

// knownDown returns what this host knows of a request of a batch.
func (l *engineLog) knownDown(ctx context.Context, batch *Batch, i int, now time.Time) (known knownState, err error) {
	r := &batch.Requests[i]
	known.now, known.counted = now, map[engine.ID]bool{}
	err = l.outage.replica.Outage(batch.Account, now, func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			known.counted[recent[i].ID] = false
		}
		return nil, nil
	})
	if err != nil {
		return known, err
	}
	budgets := engineBudgets(r.Charges)
	err = l.engine.Account(batch.Account).Known(ctx, func(v *engine.View) {
		moved := v.Moved()
		known.moved = moveOf(batch.Account, &moved)
		known.cooldown = cooldownIn(v, batch.Account, "", batch.Key)
		for i, b := range budgets {
			held := v.Held(b, batch.Key)
			known.left = append(known.left, Units(held.Limit-held.Used-held.Reserved))
			if known.cooldown == nil {
				known.cooldown = cooldownIn(v, batch.Account, r.Charges[i].Budget, batch.Key)
			}
		}
		for id := range known.counted {
			_, known.counted[id] = v.Entry(id)
		}
		for n := range max(r.Together, 1) {
			id := l.outage.nextID(batch, i+n)
			e, isKnown := v.Entry(engine.ID(id))
			for isKnown && entryOf(e).Kind == EntryRefunded {
				id = id.derived("")
				e, isKnown = v.Entry(engine.ID(id))
			}
			known.ids = append(known.ids, id)
			known.repeats = append(known.repeats, Entry{})
			if isKnown {
				known.repeats[n] = entryOf(e)
			}
		}
	})
	return known, err
}

// refusal returns why a call is not granted without the ledger, or nil.
func (k *knownState) refusal(batch *Batch, r *Request, recent []engine.Record, down error) error {
	if k.moved != nil && !k.moved.Arriving {
		return &MovedError{Account: batch.Account, Ledger: k.moved.Ledger}
	}
	if c := k.cooldown; c != nil {
		return &RefusedError{Account: batch.Account, Key: batch.Key, Budget: c.Budget, Method: r.Method, Units: r.Units,
			Caller: r.Caller, Reason: ReasonCooldown, OfKey: c.Key != "", Detail: c.Reason, Needed: r.Units,
			RetryAt: c.Until, RetryAfter: time.Until(c.Until)}
	}
	for i, charge := range r.Charges {
		left := k.left[i] - k.used(charge, batch.Key, recent)
		need := r.needs(charge)
		if need > left {
			return fmt.Errorf("%s needs %d of budget %q, which has %d left as far as this host knows: %w",
				r.Method, need, charge.Budget, max(0, left), down)
		}
	}
	return nil
}

// used returns what the grants of the outage that left lacks count in a charge.
func (k *knownState) used(charge *Charge, key string, recent []engine.Record) (used Units) {
	settled := map[engine.ID]*engine.Record{}
	for i := range recent {
		if r := &recent[i]; r.Kind == engine.KindSettle {
			settled[r.Ref] = r
		}
	}
	for i := range recent {
		r := &recent[i]
		l := &r.Labels
		isCovered := (l.Key == key || !charge.Coverage.PerKey) &&
			charge.Coverage.Covers(l.Method, Caller{Lane: l.Lane, Job: l.Job, Region: l.Region})
		if r.Kind != engine.KindGrant || k.counted[r.ID] || !isCovered {
			continue
		}
		amounts, last := r.Amounts, settled[r.ID]
		if last != nil {
			amounts = last.Amounts
		}
		isOver := last != nil || r.Until <= microsOf(k.now)
		if charge.Window.Kind() != KindInFlight || !isOver {
			used += amountsOf(amounts).Of(charge.Coverage.Measure)
		}
	}
	return used
}

// needText says what a request needs.
func needText(r *Request, count Units) string {
	switch {
	case count > 1:
		return fmt.Sprintf("%d calls of %s need %d units", count, r.Method, count*r.Units)
	case r.Units == 1:
		return r.Method + " needs 1 unit"
	}
	return fmt.Sprintf("%s needs %d units", r.Method, r.Units)
}
