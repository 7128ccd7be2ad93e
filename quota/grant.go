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
	guard   *Guard
	receipt Receipt

	mu      sync.Mutex
	settled Units // -1 until it was settled
}

// ID returns the id of the entry, as logs show it, and "" for a nil Grant.
func (g *Grant) ID() string {
	if g == nil {
		return ""
	}
	return g.receipt.ID.String()
}

// Receipt returns what identifies the entry in its ledger.
func (g *Grant) Receipt() Receipt {
	if g == nil {
		return Receipt{}
	}
	return g.receipt
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
	if g.settled == used {
		return nil
	}
	defer g.guard.refusals.forget()
	err := g.guard.ledger.Settle(context.WithoutCancel(ctx), g.receipt, used)
	if err == nil {
		g.settled = used
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
	g.settled = -1
	defer g.guard.refusals.forget()
	return opError("refund", g.guard.ledger.Refund(context.WithoutCancel(ctx), g.receipt))
}
