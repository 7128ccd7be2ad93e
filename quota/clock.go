package quota

import (
	"context"
	"time"
)

// RealTime reports whether a ledger is on real time, not on a test's clock. A
// Guard caches refusals, for up to a second, only on real time.
func RealTime(l Ledger) bool {
	real, ok := l.(interface{ RealTime() bool })
	return !ok || real.RealTime()
}

// MaxStepBack is how far a ledger's clock may step back without freeing units
// early. Timestamps that are ahead of the clock by no more are not reported.
const MaxStepBack = 2 * time.Minute

// MaxClockSkew is the largest difference between the clocks of a ledger and a
// host that is not worth a warning.
const MaxClockSkew = time.Minute

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// MaxStepBack.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	standings, err := g.cooldownStandings(ctx, account, "", "")
	if err != nil {
		return now, 0, opError("ledger of "+account, err)
	}
	return standings[0].At, standings[0].Ahead, nil
}
