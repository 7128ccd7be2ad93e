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
	id, _, _, err := g.account(account).Claim(ctx,
		engine.ClaimRequest{Name: correctionClaim, Hold: lockExpiry.Microseconds()})
	switch {
	case err != nil:
		return err
	case id == engine.ID{}:
		return ErrCorrecting
	}
	defer func() {
		g.refusals.invalidate()
		err = errors.Join(err, g.account(account).EndClaim(context.WithoutCancel(ctx), correctionClaim, id, 0))
	}()
	return correction()
}

// reservedPrefix begins the names of the claims that a Guard makes for itself.
const reservedPrefix = "ration: "

const (
	correctionClaim = reservedPrefix + "corrections"
	lockExpiry      = 10 * time.Second // in case the process that holds it dies
)
