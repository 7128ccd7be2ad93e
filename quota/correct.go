package quota

import (
	"context"
	"errors"
	"time"
)

// reportedLane attributes what an upstream says that others have spent.
const reportedLane = "upstream"

// Correct calls correction while it holds a lock on corrections of the
// account's log. It is for packages such as reconcile, which read a log before
// they change it: without the lock, two processes could both record what they
// find missing. If another process holds the lock, Correct returns
// ErrCorrecting at once. correction must return within 10 seconds, after which
// the lock expires.
func (g *Guard) Correct(ctx context.Context, account string, correction func() error) (err error) {
	// The lock is an entry in a reserved keyed log, which no budget covers. The
	// oldest entry that is neither refunded nor expired holds it.
	claim := Request{Method: "claim", Caller: Caller{Lane: reportedLane}, Units: 1, Force: true,
		Charges: []*Charge{{Budget: "claim", Coverage: NewCoverage(Coverage{}), Limit: 1, Window: Sliding(claimTime)}}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: account, Key: claimKey, Requests: []Request{claim}})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	ours := answers[0].Receipt
	defer func() {
		g.refusals.forget()
		if back := g.ledger.Refund(context.WithoutCancel(ctx), ours); !errors.Is(back, ErrStays) { // or else it holds its time
			err = errors.Join(err, back)
		}
	}()
	for entry, err := range g.ledger.Entries(ctx, Query{Account: account, Key: claimKey, Since: ours.At.Add(-claimTime), Until: ours.At}) {
		if err != nil {
			return err
		}
		if entry.Calls > 0 {
			return ErrCorrecting
		}
	}
	return correction()
}

// reservedKeys is what the keys of a Guard's own logs begin with.
const reservedKeys = "ration: "

const (
	claimKey  = reservedKeys + "corrections"
	claimTime = 10 * time.Second // how long one holds whose process has died
)
