package quota

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Claim is the right of one process, among all that use the ledger, to do
// something once.
type Claim struct {
	guard   *Guard
	receipt Receipt
}

const (
	// Claims have an account of their own, because a cooldown of the account that
	// they are about would refuse them.
	claimAccount = reservedPrefix + "claims"
	claimMethod  = "claim"

	// A claim is an entry of 1 unit, and one of claimDone units once it is done.
	claimDone Units = 1000
)

// Claim claims name for this process. Call Claim.Done when it is done, or
// Claim.Release if it was not. Claim returns nil if it was done within the time
// again, or if another process claimed it within hold. A process that dies holds
// a claim for hold, so whatever is claimed must take less. A cooldown does not
// matter.
func (g *Guard) Claim(ctx context.Context, account, name string, hold, again time.Duration) (*Claim, error) {
	key := sha256.Sum256([]byte(account + "\x00" + name))
	all := NewCoverage(Coverage{})
	request := Request{Method: claimMethod, Caller: Caller{Lane: externalLane}, Units: 1, Charges: []*Charge{
		{Budget: "held", Coverage: all, Limit: 1, Window: Sliding(hold)},
		{Budget: "done", Coverage: all, Limit: claimDone, Window: Sliding(again)},
	}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: claimAccount, Key: hex.EncodeToString(key[:16]), Requests: []Request{request}})
	if err == nil {
		err = answers[0].Err
	}
	if errors.Is(err, ErrRefused) {
		return nil, nil
	}
	if err != nil {
		return nil, opError("claim "+name, err)
	}
	return &Claim{g, answers[0].Receipt}, nil
}

// Done records that what was claimed is done, so that no process claims it again
// for the time that Guard.Claim was given.
func (c *Claim) Done(ctx context.Context) error {
	return opError("claim", c.guard.ledger.Settle(context.WithoutCancel(ctx), c.receipt, claimDone))
}

// Release lets another process, or this one, claim it at once.
func (c *Claim) Release(ctx context.Context) error {
	return opError("claim", c.guard.ledger.Refund(context.WithoutCancel(ctx), c.receipt))
}
