package quota

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Correct calls correction while it holds a lock on corrections of the
// account's log. It is for packages such as reconcile, which read a log before
// they change it: without the lock, two processes could both record what they
// find missing. If another process holds the lock, Correct returns
// ErrCorrecting at once. correction must return within 10 seconds, after which
// the lock expires.
func (g *Guard) Correct(ctx context.Context, account string, correction func() error) (err error) {
	claim, err := g.Account(account).Claim(ctx, engine.ClaimRequest{Name: correctionClaim, Hold: lockExpiry})
	if errors.Is(err, ErrClaimed) {
		return ErrCorrecting
	}
	if err != nil {
		return err
	}
	defer func() {
		g.refusals.invalidate()
		err = errors.Join(err, claim.Release(ctx))
	}()
	return correction()
}

// reservedPrefix begins the names of the claims that a Guard makes for itself.
const reservedPrefix = "ration: "

const (
	correctionClaim = reservedPrefix + "corrections"
	lockExpiry      = 10 * time.Second // in case the process that holds it dies
)
