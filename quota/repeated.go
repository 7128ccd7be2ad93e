package quota

import (
	"context"

	"github.com/ration-dev/ration/internal/engine"
)

// repeat makes the grant count for what the entry of an earlier request with
// the same ID does, which may have been settled since. It reports whether that
// was refunded, so that the call must be charged anew.
func (g *Grant) repeat(e Entry) (isRefunded bool) {
	g.at, g.units = e.At, e.Units
	g.measures, g.isOpen = e.Measures, e.Open
	g.refunded = e.Kind == EntryRefunded
	return g.refunded
}

// Refresh asks the ledger what a grant of Redeem is charged at present, so that
// Call says it: others may have settled it since. The grant stays as it is if
// the ledger cannot tell.
func (g *Grant) Refresh(ctx context.Context) {
	if g == nil || !g.redeemed {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled || g.refunded {
		return
	}
	_ = g.guard.Account(g.set.class.account).View(ctx, func(v *engine.View) {
		if e, ok := v.Entry(engine.ID(g.id)); ok {
			entry := entryOf(e)
			g.units, g.refunded = entry.Units, entry.Kind == EntryRefunded
			g.measures = entry.Measures
		}
	})
}
