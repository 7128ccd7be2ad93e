// Package allowance grants a limited number of units while a ledger is down. The
// limit is per account, host and trailing 24 hours, over all processes of the
// host that share a folder. Each call is written to a file in that folder, and
// synced to its disk, before it is granted. A call that cannot be written is
// refused.
//
//	ledger := allowance.New(shared, filepath.Join(state, "allowance"), &allowance.Options{Allow: rules})
//
// The ledger does not record these calls. Unrecorded returns their units; the
// file has all that is needed to record them later, which this package does not.
package allowance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/filelock"
)

// window is the time over which an allowance is counted.
const window = 24 * time.Hour

// Options configures New. A nil *Options is the default, which refuses every call
// while the ledger is down.
type Options struct {
	// Allow returns how many units the account may have spent without the
	// ledger once this call is granted; 0 refuses the call. It may depend on
	// the call's account, key, method, units and caller. All calls of an
	// account share one count: after 40 units, a call whose limit is 50 may
	// spend 10 more, and one whose limit is 20 none. Allow must be
	// deterministic and safe for concurrent use. nil refuses every call.
	Allow func(quota.Call) quota.Units

	// Now is a clock for tests; nil is time.Now. It does not affect how long a
	// ledger counts as down.
	Now func() time.Time
}

// Ledger is a quota.Ledger that forwards to another ledger, and grants calls
// within the allowance while that one is down (quota.ErrLedgerDown). It returns
// every other error: a ledger in doubt may have charged the call, and a
// misconfigured one needs to be corrected. It is safe for concurrent use.
//
// After a spend or a standing that failed or was left in doubt, Ledger treats
// the other ledger as down for that account for two seconds. Then one call
// probes it for all. So a ledger that hangs delays one call every few seconds,
// for as long as its own timeout. Settles, refunds and cooldowns record what has
// already happened and are always forwarded.
type Ledger struct {
	quota.Ledger // implements Entries, Sums, SetCooldown and ClearCooldown

	allow  func(quota.Call) quota.Units
	files  *files
	client uint64 // identifies the requests of batches without an id

	mu       sync.Mutex
	seq      uint64
	breakers map[string]*breaker    // by account
	foreign  map[quota.ID]time.Time // granted here, with an id from the caller
}

// New returns inner with an allowance whose files are in dir, a folder on a local
// disk. It creates dir with mode 0700 when it first needs it.
func New(inner quota.Ledger, dir string, o *Options) *Ledger {
	l := &Ledger{Ledger: inner, client: quota.NewClient(), seq: 1,
		files:    &files{dir: dir, now: time.Now, locks: map[string]*filelock.Lock{}},
		breakers: map[string]*breaker{}, foreign: map[quota.ID]time.Time{}}
	if o != nil {
		l.allow = o.Allow
		if o.Now != nil {
			l.files.now = o.Now
		}
	}
	return l
}

// Spend implements quota.Ledger. While the ledger is down, each request of a
// batch is granted or refused on its own. The Answer of a refused one has the
// ledger's error and what is left of the allowance. A forced request is always
// recorded.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) (answers []quota.Answer, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	err = l.breaker(batch.Account).call(ctx, func() error {
		answers, err = l.Ledger.Spend(ctx, batch)
		return err
	})
	if !isDown(err) {
		return answers, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l.fallBack(ctx, batch, err)
}

// Standings implements quota.Ledger. It does not include the allowance; see
// Unrecorded.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) (standings []quota.Standing, err error) {
	err = l.breaker(account).call(ctx, func() error {
		standings, err = l.Ledger.Standings(ctx, account, key, charges)
		return err
	})
	return standings, err
}

// Settle implements quota.Ledger. A call that was granted within the allowance is
// settled in the allowance's file, which changes what is left.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if !l.grantedHere(receipt.ID) {
		return l.Ledger.Settle(ctx, receipt, units)
	}
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", quota.ErrBadCall, units, quota.MaxUnits)
	}
	return l.files.settle(ctx, receipt, opSettle, units)
}

// Refund implements quota.Ledger. The units of a call that was granted within the
// allowance return to it.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	if !l.grantedHere(receipt.ID) {
		return l.Ledger.Refund(ctx, receipt)
	}
	return l.files.settle(ctx, receipt, opRefund, 0)
}

// Unrecorded returns the units that all processes of this host have spent within
// the allowance of an account in the last 24 hours, and that the ledger has not
// recorded. It writes nothing and creates nothing.
func (l *Ledger) Unrecorded(account string) (quota.Units, error) {
	log, err := l.files.load(account)
	if err != nil {
		return 0, fmt.Errorf("unrecorded units of %s: %w", account, err)
	}
	return log.used(l.files.now()), nil
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return quota.RealTime(l.Ledger) }

// Close closes the other ledger too. Calls in flight may fail.
func (l *Ledger) Close() error {
	return errors.Join(l.Ledger.Close(), l.files.close())
}

func (l *Ledger) breaker(account string) *breaker {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.breakers[account]
	if b == nil {
		b = &breaker{}
		l.breakers[account] = b
	}
	return b
}

// isDown reports whether err means that the ledger was down and did nothing.
func isDown(err error) bool {
	return errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig) && !errors.Is(err, quota.ErrInDoubt)
}
