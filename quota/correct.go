package quota

import (
	"context"
	"errors"
	"time"
)

// reportedLane attributes what an upstream says that others have spent.
const reportedLane = "upstream"

// Correct runs correction while no other process on the ledger corrects the
// account's log, so that what two of them find missing is entered once. It is for
// packages such as reconcile, which look at a log before they change it. If
// another process is correcting the log, it returns ErrCorrecting without running
// correction. A correction must end within 10 seconds: if its process dies, others
// wait that long.
//
// Processes claim the right in a reserved keyed log, which no budget covers; the
// oldest claim that is not refunded holds.
func (g *Guard) Correct(ctx context.Context, account string, correction func() error) (err error) {
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
