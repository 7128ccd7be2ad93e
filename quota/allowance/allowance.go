// Package allowance lets some calls go on while their ledger is down: so many
// units per account, host and trailing 24 hours, over all processes of the
// host that share a folder. Each call is written to a file there, and on its
// disk, before it is granted; what cannot be written is refused.
//
//	ledger := allowance.New(shared, filepath.Join(state, "allowance"), &allowance.Options{Allow: rules})
//
// What was sent so is missing from the ledger, and Unrecorded says how much it
// is. To charge it back is not the work of this package: the file keeps all
// that is needed for it.
package allowance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
)

// window is the time over which an allowance is counted.
const window = 24 * time.Hour

// Options are for New; nil is the default, which refuses every call while the
// ledger is down.
type Options struct {
	// Allow returns how many units may be spent without the ledger before this
	// call is refused; 0 refuses it at once. It may decide by the call's
	// account, key, method, units and caller. There is one count for an account:
	// with 40 units gone, a call that is allowed 50 may spend 10 more, and
	// one that is allowed 20 none. It must be safe for concurrent use and give
	// the same answer each time. nil refuses everything.
	Allow func(quota.Call) quota.Units

	// Now is a clock for tests; nil is time.Now. The breaker does not read it.
	Now func() time.Time
}

// Ledger is a quota.Ledger that asks another one, and grants within the
// allowance while that is down (quota.ErrLedgerDown). Every other error means
// what it says and is returned: a ledger in doubt may have charged the call,
// and a misconfigured one must be mended. It is safe for concurrent use.
//
// It bounds no ask: the ledger underneath does, to about a second. After an ask
// that failed or was left in doubt, the spends and standings of that
// account are taken for down for two seconds without asking; then one of them
// asks, and its outcome decides for all. So a ledger that hangs costs a second
// now and then, not one at each call. Settles, refunds and cooldowns tell what
// has happened already, and are always tried.
type Ledger struct {
	quota.Ledger // Entries, Sums, SetCooldown and ClearCooldown are its own

	allow  func(quota.Call) quota.Units
	files  *files
	client uint64 // names the requests of batches that come without an id

	mu       sync.Mutex
	seq      uint64
	breakers map[string]*breaker    // by account
	foreign  map[quota.ID]time.Time // granted here under an id that the caller gave
}

// New returns inner with an allowance that is counted in dir, a folder on a
// local disk. It is made with permissions 0700 when it is first needed.
func New(inner quota.Ledger, dir string, o *Options) *Ledger {
	l := &Ledger{Ledger: inner, files: newFiles(dir), client: quota.NewClient(), seq: 1,
		breakers: map[string]*breaker{}, foreign: map[quota.ID]time.Time{}}
	if o != nil {
		l.allow = o.Allow
		if o.Now != nil {
			l.files.now = o.Now
		}
	}
	return l
}

// Spend implements quota.Ledger. While the ledger is down each request of a
// batch is granted or refused on its own: a refused one has the ledger's own
// error in its Answer, and how much of the allowance is left. A forced request
// is recorded whatever is allowed.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) (answers []quota.Answer, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	err = l.breaker(batch.Account).ask(ctx, func() error {
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

// Standings implements quota.Ledger. It knows nothing of the allowance, see
// Unrecorded.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) (standings []quota.Standing, err error) {
	err = l.breaker(account).ask(ctx, func() error {
		standings, err = l.Ledger.Standings(ctx, account, key, charges)
		return err
	})
	return standings, err
}

// Settle implements quota.Ledger. What was granted within the allowance is
// corrected in its file, which frees or takes units of the allowance.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if !l.granted(receipt.ID) {
		return l.Ledger.Settle(ctx, receipt, units)
	}
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", quota.ErrBadCall, units, quota.MaxUnits)
	}
	return l.files.correct(ctx, receipt, opSettle, units)
}

// Refund implements quota.Ledger. What was granted within the allowance is
// given back to it.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	if !l.granted(receipt.ID) {
		return l.Ledger.Refund(ctx, receipt)
	}
	return l.files.correct(ctx, receipt, opRefund, 0)
}

// Unrecorded returns the units of an account that were spent within the
// allowance in the last 24 hours, by all processes of this host, and that the
// ledger does not hold. It writes nothing and creates nothing.
func (l *Ledger) Unrecorded(account string) (quota.Units, error) {
	log, err := l.files.load(account)
	if err != nil {
		return 0, fmt.Errorf("unrecorded units of %s: %w", account, err)
	}
	return log.used(l.files.now()), nil
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return quota.RealTime(l.Ledger) }

// Close closes the ledger underneath too. Calls in flight may fail.
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

// isDown reports whether nothing was done because the ledger could not be asked.
func isDown(err error) bool {
	return errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig) && !errors.Is(err, quota.ErrInDoubt)
}
