package quota

import (
	"context"
	"fmt"
	"sync"
)

// Grant is an admitted spend. A nil Grant settles and refunds to nothing. Its
// methods go through even when the caller's context is done, because what
// they say is already true.
type Grant struct {
	guard *Guard
	plan  *plan
	held  []Held

	receipt Receipt

	mu       sync.Mutex
	units    Units // as recorded now
	refunded bool
	settled  bool // to units
}

// ID returns the id of the entry, as logs show it, and "" for a nil Grant.
func (g *Grant) ID() string {
	if g == nil {
		return ""
	}
	return g.receipt.ID.String()
}

// recorded returns the receipt with what is recorded now. No coverage asks for
// the caller's job.
func (g *Grant) recorded() Receipt {
	r, of := g.receipt, &g.plan.key
	r.Recorded = &Recorded{Method: of.method, Caller: Caller{Lane: of.lane, Region: of.region}, Units: g.units, Refunded: g.refunded}
	return r
}

// Balances returns the budgets that the call was charged to, in the guard's
// order, as they stood right after the grant: read in the step that granted it.
// Cooldown and Floors are not set. It is empty for a nil Grant, for a call that
// no budget covers, and for one that was granted without the ledger.
func (g *Grant) Balances() []Balance {
	if g == nil || len(g.held) == 0 || len(g.held) != len(g.plan.charges) {
		return nil
	}
	balances := make([]Balance, len(g.held))
	for i, held := range g.held {
		b := Balance{Budget: g.guard.budgets[g.plan.budgets[i]], Coverage: g.plan.charges[i].Coverage, At: g.receipt.At, Used: held.Used}
		if held.FreesIn > 0 {
			b.NextFree = b.At.Add(held.FreesIn)
		}
		b.Since = b.Budget.Window.since(b.At)
		b.Remaining = max(0, b.Budget.Limit-held.Used-held.Kept)
		balances[i] = b
	}
	return balances
}

// Tightest returns the balance of the budget that had the least left after the
// grant, and false when Balances is empty.
func (g *Grant) Tightest() (tightest Balance, ok bool) {
	for _, b := range g.Balances() {
		if !ok || b.Remaining < tightest.Remaining {
			tightest, ok = b, true
		}
	}
	return tightest, ok
}

// Settle corrects the entry to what the call really cost, 0 to MaxUnits; the
// last Settle or Refund holds. More than the limits allow is recorded all the
// same. ErrStays says that it came too late to lower.
func (g *Grant) Settle(ctx context.Context, used Units) error {
	if g == nil {
		return nil
	}
	if used < 0 || used > MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", ErrBadCall, used, MaxUnits)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled && g.units == used {
		return nil
	}
	defer g.guard.refusals.forget()
	err := g.guard.ledger.Settle(context.WithoutCancel(ctx), g.recorded(), used)
	if err == nil {
		g.units, g.refunded, g.settled = used, false, true
	}
	return opError("settle", err)
}

// Refund gives the units of a call back that was never sent. A call that may
// have reached the upstream must not be refunded.
func (g *Grant) Refund(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.guard.refusals.forget()
	err := g.guard.ledger.Refund(context.WithoutCancel(ctx), g.recorded())
	if g.settled = false; err == nil {
		g.units, g.refunded = 0, true
	}
	return opError("refund", err)
}
