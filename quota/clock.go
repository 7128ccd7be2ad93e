package quota

import (
	"context"
	"time"
)

// RealTimeLedger is a Ledger that knows whether it is on real time or on a
// test's clock. A Guard caches refusals, for up to a second, only if its ledger
// is on real time. A decorator implements RealTimeLedger by calling the
// function RealTime with the ledger that it wraps.
type RealTimeLedger interface {
	Ledger
	// RealTime reports whether the ledger's clock is real.
	RealTime() bool
}

// RealTime reports whether l is a RealTimeLedger on real time.
func RealTime(l Ledger) bool {
	real, ok := l.(RealTimeLedger)
	return ok && real.RealTime()
}

// MaxStepBack is how far a ledger's clock may step back without freeing units
// early. Timestamps that are ahead of the clock by no more are not reported.
const MaxStepBack = 2 * time.Minute

// MaxClockSkew is the largest difference between the clocks of a ledger and a
// host for which doctor gives no warning.
const MaxClockSkew = time.Minute

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// MaxStepBack; see Restamp.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	standings, err := g.cooldownStandings(ctx, account, "")
	if err != nil {
		return now, 0, opError("time of "+account, err)
	}
	return standings[0].At, standings[0].Ahead, nil
}

// Restamp repairs the logs of an account after the ledger's clock was ahead:
// entries with timestamps ahead of the clock get new ones. It includes the logs
// of the account's keys, and returns how many entries it changed. The clock
// must be right again before Restamp is called.
func (g *Guard) Restamp(ctx context.Context, account string) (changed int, err error) {
	defer g.refusals.invalidate()
	changed, err = g.ledger.Restamp(ctx, account, "")
	if err != nil {
		return 0, opError("restamp "+account, err)
	}
	for key, err := range g.ledger.Keys(ctx, account) {
		if err != nil {
			return changed, opError("keys of "+account, err)
		}
		n, err := g.ledger.Restamp(ctx, account, key)
		if changed += n; err != nil {
			return changed, opError("restamp a key of "+account, err)
		}
	}
	return changed, nil
}
