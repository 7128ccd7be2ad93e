package quota

import (
	"context"
	"errors"
	"time"
)

// reportedLane attributes what an upstream says that others have spent.
const reportedLane = "upstream"

// Correct runs a correction of an account's log while no other process on the
// ledger does, so that what two of them see missing is entered once. When
// another does, it returns ErrCorrecting and does not run it. Who dies while it
// corrects keeps the others waiting for 10 seconds; a correction must not take longer.
//
// Each claims the right in a log of its own key, which no budget covers: of the claims that are
// not taken back the first in that log's order has it.
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
