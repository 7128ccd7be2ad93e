package quota

import (
	"context"
	"time"
)

// SpendTogether charges count calls that are alike, 1 to MaxTogether, if all of
// them fit, and none otherwise. It returns a grant for each. Like Wait, it
// waits for at most maxWait. Calls that could never fit together are a
// *NeverFitsError. A refusal is about all of the calls.
//
// Calls with an ID that were refunded since are charged anew, all of them. It
// returns the errors of Spend.
func (g *Guard) SpendTogether(ctx context.Context, call Call, count int, maxWait time.Duration) ([]*Grant, error) {
	grant, _, err := g.await(ctx, g.request(ctx, call, count), maxWait, nil, false)
	return grant.all(), err
}

// all returns a grant and those that were granted together with it.
func (g *Grant) all() []*Grant {
	if g == nil {
		return nil
	}
	return append([]*Grant{g}, g.others...)
}
