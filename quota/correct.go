package quota

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Correct calls correction while it holds a lock on corrections of the
// account's log. It is for packages such as reconcile, which read a log before
// they change it: without the lock, two processes could both record what they
// find missing. If another process holds the lock, Correct returns
// ErrCorrecting at once. correction must return within 10 seconds, after which
// the lock expires.
func (g *Guard) Correct(ctx context.Context, account string, correction func() error) (err error) {
	// The lock is an entry in a reserved keyed log, which no budget covers. The
	// oldest entry that is neither refunded nor expired holds it.
	lock := Request{Method: "claim", Caller: Caller{Lane: externalLane}, Units: 1, Force: true,
		Charges: []*Charge{{Budget: "claim", Coverage: NewCoverage(Coverage{}), Limit: 1, Window: Sliding(lockExpiry)}}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: account, Key: lockKey, Requests: []Request{lock}})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	ours := answers[0].Receipt
	defer func() {
		g.refusals.invalidate()
		unlock := g.ledger.Refund(context.WithoutCancel(ctx), ours)
		if !errors.Is(unlock, ErrStays) { // it expires by itself
			err = errors.Join(err, unlock)
		}
	}()
	for entry, err := range g.ledger.Entries(ctx, Query{Account: account, Key: lockKey, Since: ours.At.Add(-lockExpiry), Until: ours.At}) {
		if err != nil {
			return err
		}
		if entry.Calls == 0 {
			continue
		}
		standings, err := g.cooldownStandings(ctx, account, lockKey, "")
		if err == nil && standings[0].Ahead > 0 { // a lock that was left behind does not expire
			return fmt.Errorf("%w%s", ErrCorrecting, stampedAhead(standings[0].Ahead))
		}
		return errors.Join(ErrCorrecting, err)
	}
	return correction()
}

// reservedPrefix begins the accounts, and the keys of logs, that a Guard keeps
// for itself.
const reservedPrefix = "ration: "

const (
	lockKey    = reservedPrefix + "corrections"
	lockExpiry = 10 * time.Second // in case the process that holds it dies
)

// IsReserved reports whether a Guard keeps an account, such as that of claims,
// or the log of a key for itself.
func IsReserved(name string) bool { return strings.HasPrefix(name, reservedPrefix) }
