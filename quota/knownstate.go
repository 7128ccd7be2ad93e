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
	ids      []engine.ID    // of its calls: those of the request, unless they were refunded before
	repeats  []engine.Entry // of each call that was granted before, and counts
	moved    *MovedError
	cooldown *Cooldown
	left     []Units            // of each charge
	counted  map[engine.ID]bool // grants of the outage that left takes into account
}

// knownDown returns what this host knows of a request.
func (g *Guard) knownDown(ctx context.Context, r *request, now time.Time) (known knownState, err error) {
	known.now, known.counted = now, map[engine.ID]bool{}
	err = g.outage.replica.Outage(r.Account, now, func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			known.counted[recent[i].ID] = false
		}
		return nil, nil
	})
	if err != nil {
		return known, err
	}
	err = g.Account(r.Account).Known(ctx, func(v *engine.View) {
		known.moved = moveOf(r.Account, v.Moved())
		known.cooldown = cooldownIn(v, r.Account, "", r.Key)
		for _, c := range r.set.charges {
			held := v.Held(c.engine, r.Key)
			known.left = append(known.left, Units(held.Limit-held.Used-held.Reserved))
			if known.cooldown == nil {
				known.cooldown = cooldownIn(v, r.Account, c.Name, r.Key)
			}
		}
		for id := range known.counted {
			_, known.counted[id] = v.Entry(id)
		}
		for n := range r.count {
			id := engine.ID{Client: r.id.Client, Seq: r.id.Seq + uint64(n)}
			if r.id == (ID{}) {
				id = g.outage.nextID()
			}
			e, isKnown := v.Entry(id)
			for isKnown && entryOf(e).Kind == EntryRefunded {
				id = engine.ID(ID(id).derived(""))
				e, isKnown = v.Entry(id)
			}
			known.ids, known.repeats = append(known.ids, id), append(known.repeats, e)
		}
	})
	return known, err
}

// refusal returns why a call is not granted without the ledger, or nil.
func (k *knownState) refusal(r *request, recent []engine.Record, down error) error {
	if k.moved != nil && !k.moved.Arriving {
		return k.moved
	}
	if c := k.cooldown; c != nil {
		refused := newRefusal(&r.Call, c.Budget, ReasonCooldown)
		refused.OfKey, refused.Detail = c.Key != "", c.Reason
		refused.RetryAt, refused.RetryAfter = c.Until, time.Until(c.Until)
		return refused
	}
	for i, charge := range r.set.charges {
		left := k.left[i] - k.used(charge, r.Key, recent)
		if need := r.needs(charge); need > left {
			return fmt.Errorf("%s needs %d of budget %q, which has %d left as far as this host knows: %w",
				r.Method, need, charge.Name, max(0, left), down)
		}
	}
	return nil
}

// used returns what the grants of the outage that left lacks count in a charge.
func (k *knownState) used(charge *charge, key string, recent []engine.Record) (used Units) {
	settled := map[engine.ID]*engine.Record{}
	for i := range recent {
		if r := &recent[i]; r.Kind == engine.KindSettle {
			settled[r.Ref] = r
		}
	}
	for i := range recent {
		r := &recent[i]
		l := &r.Labels
		isCovered := (l.Key == key || !charge.PerKey) && charge.coverage.Covers(l.Method, l.Lane, l.Region)
		if r.Kind != engine.KindGrant || k.counted[r.ID] || !isCovered {
			continue
		}
		amounts, last := r.Amounts, settled[r.ID]
		if last != nil {
			amounts = last.Amounts
		}
		isOver := last != nil || r.Until <= microsOf(k.now)
		if charge.Window.Kind() != engine.InFlight || !isOver {
			used += amountsOf(amounts).Of(charge.Measure)
		}
	}
	return used
}

// needText says what a request needs.
func (r *request) needText() string {
	switch {
	case r.count > 1:
		return fmt.Sprintf("%d calls of %s need %d units", r.count, r.Method, Units(r.count)*r.Units)
	case r.Units == 1:
		return r.Method + " needs 1 unit"
	}
	return fmt.Sprintf("%s needs %d units", r.Method, r.Units)
}
