package quota

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReused means that Call.ID, or the name it stands for, was used for
// another call before, which was granted. The call was not charged and must
// not be made.
var ErrReused = errors.New("quota: this id was used for another call; give each call its own")

// checkRepeated looks up the entry of a call with an ID, if its answer may be
// that to an earlier request: such an answer has no balances. The grant then
// counts for what the entry does, which may have been settled since. One that
// was refunded is charged anew by its caller. It returns ErrReused if the
// earlier request was for another call. If the log cannot tell, the grant
// stands: a log without entries forgets the id of a call that is refunded.
func (g *Grant) checkRepeated(ctx context.Context, call *Call) error {
	if call.ID == (ID{}) || len(g.held) > 0 {
		return nil
	}
	entry, ok := g.entry(ctx)
	if !ok {
		g.repeated = g.receipt.Epoch != 0 // else it is granted within an allowance
		return nil
	}
	isOther := entry.Method != call.Method || entry.Caller != call.Caller
	if entry.Unlabelled { // all that is known is what it paid for
		isOther = entry.Units < call.Units && entry.Kind != EntryRefunded
	}
	if isOther {
		return fmt.Errorf("%w (it was %s)", ErrReused, entry.Method)
	}
	g.units = entry.Units
	g.refunded, g.repeated = entry.Kind == EntryRefunded, true
	return nil
}

// entry looks up the entry of a grant. ok is false if the log cannot tell.
func (g *Grant) entry(ctx context.Context) (found Entry, ok bool) {
	query := Query{Account: g.receipt.Account, Key: g.receipt.Key, Since: g.receipt.At, Until: g.receipt.At.Add(time.Microsecond)}
	for entry, err := range g.guard.log.Entries(ctx, query) {
		if err == nil && sameID(entry.ID, g.receipt.ID) {
			return entry, true
		}
	}
	return Entry{}, false
}

// sameID compares ids of which one may come from a log, which keeps the low 32
// bits of a Seq.
func sameID(a, b ID) bool { return a.Client == b.Client && uint32(a.Seq) == uint32(b.Seq) }

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
	if entry, ok := g.entry(ctx); ok {
		g.units, g.refunded = entry.Units, entry.Kind == EntryRefunded
	}
}
