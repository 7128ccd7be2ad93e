package quota

import (
	"context"
	"time"
)

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// two minutes.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	s, err := g.stopped(ctx, account, "", "")
	return s.at, s.ahead, opError("ledger of "+account, err)
}
