package quota

import (
	"context"
	"time"
)

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// two minutes.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	standings, err := g.cooldownStandings(ctx, account, "", "")
	if err != nil {
		return now, 0, opError("ledger of "+account, err)
	}
	return standings[0].At, standings[0].Ahead, nil
}
