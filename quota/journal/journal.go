// Package journal keeps a host's own record of what it was granted, so that the
// promise holds when a ledger is down, or has forgotten.
//
//	ledger := journal.New(shared, folder, &journal.Options{Name: address, Budgets: budgets, Allow: rules})
//
// A Ledger wraps another one and writes every grant to a folder that the
// processes of a host share, before the call is sent. It does three things with
// that record:
//
//   - While the ledger is down, it grants a limited number of units by itself.
//   - When the ledger is back, it restores these calls, with their own times.
//   - When the ledger has forgotten, it restores this host's calls, and notes what
//     all others had spent when this host last heard, before anything is granted.
//
// Ordinary records are not synced to the disk: only a power failure that hits
// the host and the ledger loses them.
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/quota"
)

// window is the time over which an allowance is counted.
const window = 24 * time.Hour

// Options configures New. A nil *Options is the default, which refuses every
// call while the ledger is down.
type Options struct {
	// Name identifies the ledger, for example by its address. What was granted
	// by another ledger is never restored into this one, even in one folder.
	Name string

	// Budgets are those of the Guard. The journal keeps its records for as long
	// as their windows need them, and restores what others had spent of them.
	Budgets []quota.Budget

	// Allow returns how many units the account may have spent without the
	// ledger once this call is granted; 0 refuses the call. It may depend on
	// the call's account, key, method, units and caller. All calls of an
	// account share one count: after 40 units, a call whose limit is 50 may
	// spend 10 more, and one whose limit is 20 none. Allow must be
	// deterministic and safe for concurrent use. nil refuses every call.
	Allow func(quota.Call) quota.Units

	// AllowIn says in errors where the limits of Allow are configured, such as
	// "when_ledger_down of costs.yaml"; "" leaves it out.
	AllowIn string

	// Granted is called with the units of each call that is granted without the
	// ledger. It must be safe for concurrent use. nil disables the callback.
	Granted func(quota.Units)

	// Report is called with a *RestoredError when the ledger has been restored,
	// and with an *UnwrittenError when the journal cannot be read or written.
	// nil drops them.
	Report func(error)

	// Now is a clock for tests; nil is time.Now. It does not affect how long a
	// ledger counts as down.
	Now func() time.Time

	// Uptime is for tests with Now: it identifies the host's start, and says how
	// long ago that was. nil, or 0 for the start, is a system that does not tell.
	Uptime func() (boot uint64, since time.Duration)
}

// Ledger is a quota.Ledger that forwards to another ledger and journals what
// that grants. It is safe for concurrent use.
//
// While the other ledger is down (quota.ErrLedgerDown), it grants calls within
// the allowance. It returns every other error: a ledger in doubt may have
// charged the call, a busy one is up, and a misconfigured one needs to be
// corrected. After a spend or a standing that failed twice, it treats the other
// ledger as down for that account for two seconds, or until another process of
// the host has restored it. Then one call asks it for all. Settles and refunds
// of what only the journal has change the journal; all others, and cooldowns,
// are forwarded.
type Ledger struct {
	quota.Ledger // implements what the journal has no part in
	dir, ledger  string
	now          func() time.Time
	uptime       func() (boot uint64, since time.Duration) // see Options.Uptime
	allow        func(quota.Call) quota.Units
	allowance    string // what errors call the allowance
	granted      func(quota.Units)
	report       func(error)
	budgets      map[string]map[string]*quota.Charge // by account and name
	names        map[string]map[string]string        // of these: under which each is heard of
	horizons     map[string]time.Duration            // by account: how far its windows see
	client       uint64                              // identifies the requests of batches without an id
	decide       quota.SpendFunc                     // the other ledger's, with the journal

	accounts sync.Map // of *account, by name
	seq      atomic.Uint64
	closed   atomic.Bool
}

// account is the journal of one account in this process.
type account struct {
	name   string
	files  *files
	outage outage

	restores restores
	stated   atomic.Uint64 // the epoch for which isStated holds

	writing  sync.Mutex
	records  []record  // of the batch that is written
	spelling sync.Once // of keepSpelling

	mu      sync.Mutex
	newest  newestRecord           // of the host, as last read
	loaded  bool                   // newest has been read
	state   *state                 // nil until it is needed
	failed  bool                   // the files could not be read or written
	unknown atomic.Bool            // what the last restoration found, as its answer was lost
	cooling map[string]coolingNote // of the cooldowns that refusals named, by budget
	refused map[string]said        // what the last refusal that was written said, by budget

	restorations int // of the host, when a call last fell back on the allowance
}

// New returns inner with a journal in dir, a folder on a local disk. It
// creates dir with mode 0700 when it first needs it. An empty dir means that
// there is none: the Ledger then restores nothing, grants nothing by itself,
// and reports an *UnwrittenError at its first grant.
func New(inner quota.Ledger, dir string, o *Options) *Ledger {
	if o == nil {
		o = &Options{}
	}
	l := &Ledger{Ledger: inner, dir: dir, ledger: o.Name, now: o.Now, uptime: o.Uptime, allow: o.Allow, allowance: "allowance", granted: o.Granted, report: o.Report, client: quota.NewClient(),
		budgets: map[string]map[string]*quota.Charge{}, names: map[string]map[string]string{}, horizons: map[string]time.Duration{}}
	l.seq.Store(1)
	if o.AllowIn != "" {
		l.allowance += " in " + o.AllowIn
	}
	switch {
	case l.now == nil:
		l.now, l.uptime = time.Now, readUptime
	case l.uptime == nil:
		l.uptime = func() (uint64, time.Duration) { return 0, 0 }
	}
	l.decide = l.journaled(func(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) { return inner.Spend(ctx, batch) })
	if combining, ok := inner.(quota.CombiningLedger); ok { // one record and one look at the files for all calls that share a round trip
		combining.Around(l.journaled)
		l.decide = inner.Spend
	}
	for i, coverage := range quota.Coverages(o.Budgets) {
		l.addBudget(&o.Budgets[i], coverage)
	}
	return l
}

func (l *Ledger) account(name string) *account {
	a, ok := l.accounts.Load(name)
	if !ok {
		files := newFiles(l.dir, l.ledger, name, l.horizons[name], l.now)
		a, _ = l.accounts.LoadOrStore(name, &account{name: name, files: files})
	}
	return a.(*account)
}

// Spend implements quota.Ledger. While the ledger is down, each request of a
// batch is granted or refused on its own. The Answer of a refused one has the
// ledger's error and what is left of the allowance. A forced request is
// always recorded.
//
// What the ledger has granted is undone if another process of the host has
// taken its room within the allowance meanwhile, or restored the log without
// it. Then the batch is spent anew, or if it has an id, it fails with
// quota.ErrLedgerBusy.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if l.closed.Load() {
		return nil, fmt.Errorf("%w by this process; open it again", quota.ErrLedgerClosed)
	}
	a := l.account(batch.Account)
	if err := l.restoreMissing(ctx, a, batch.Key); err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		answers, err := l.spend(ctx, a, batch)
		if !isDown(err) {
			return answers, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		answers, err = l.fallBack(ctx, a, batch, err, again)
		if !errors.Is(err, errBack) {
			return answers, err
		}
	}
}

func (l *Ledger) spend(ctx context.Context, a *account, batch *quota.Batch) ([]quota.Answer, error) {
	var failed error
	if !a.files.owes.Load() && !a.outage.lasts.Load() {
		var answers []quota.Answer
		answers, failed = l.decide(ctx, batch)
		// What is in doubt must not count as down if the ledger has gone down since.
		if !isDown(failed) && !errors.Is(failed, errOwed) && !errors.Is(failed, quota.ErrLedgerLost) {
			return answers, failed
		}
	}
	return l.spendAgain(ctx, a, batch, failed)
}

// spendAgain spends after a first try has failed, or was not made.
func (l *Ledger) spendAgain(ctx context.Context, a *account, batch *quota.Batch, failed error) (answers []quota.Answer, err error) {
	if a.files.owes.Load() && failed == nil {
		err = errOwed
	}
	for range maxRestores {
		if errors.Is(err, errOwed) {
			if err := a.outage.call(ctx, func() error { return l.restore(ctx, a, nil, l.clockFor(batch)) }); err != nil {
				return nil, err
			}
		}
		err = a.outage.call(ctx, func() error {
			if err, failed = failed, nil; err == nil {
				answers, err = l.decide(ctx, batch)
			}
			if l.recreated(ctx, err, l.clockFor(batch)) {
				answers, err = l.decide(ctx, batch)
			}
			return err
		})
		if forgotten, ok := errors.AsType[*quota.ForgottenError](err); ok && batch.Known == (quota.Receipt{}) {
			if err := l.restore(ctx, a, forgotten, l.clockFor(batch)); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, errOwed) || batch.Client != 0 && errors.Is(err, errWithdrawn) { // by its id, it would be repeated
			break
		}
	}
	if _, again := errors.AsType[*quota.ForgottenError](err); again && batch.Known == (quota.Receipt{}) {
		err = fmt.Errorf("%w; it was restored %d times for this call, and lost again each time: find what empties it", err, maxRestores)
	}
	return answers, err
}

// recreated reports whether it has restored a ledger that is lost as a whole,
// of which the batch itself knows nothing: a claim, or a call of an account
// that this host was never granted anything of.
func (l *Ledger) recreated(ctx context.Context, err error, caller time.Time) bool {
	if _, known := errors.AsType[*quota.ForgottenError](err); known || !errors.Is(err, quota.ErrLedgerLost) {
		return false
	}
	for name := range l.budgets {
		a := l.account(name)
		known, err := l.newestGrant(a)
		if err != nil || known == (quota.Receipt{}) {
			continue
		}
		lost := (&quota.Batch{Account: name, Known: known}).Forgotten(0, time.Time{})
		if forgotten, ok := errors.AsType[*quota.ForgottenError](lost); ok && l.restore(ctx, a, forgotten, caller) == nil {
			return true
		}
	}
	return false
}

// errOwed means that the ledger lacks calls of this host, which come first.
var errOwed = fmt.Errorf("%w: calls of this host must be restored first", quota.ErrLedgerBusy)

// journaled returns core with the journal around it: it gets what the log must
// hold, and its grants are written.
func (l *Ledger) journaled(core quota.SpendFunc) quota.SpendFunc {
	return func(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
		a, own := l.account(batch.Account), *batch
		newest, err := l.newestRecord(a)
		if err != nil {
			return nil, err
		}
		if !l.isStated(a, &newest) {
			return nil, cmp.Or(a.owe(), errOwed)
		}
		changes := a.files.changes.Load() // before owes: what is counted here, the ledger has, or owes says that it has not
		if a.files.owes.Load() {
			return nil, errOwed
		}
		if batch.Key == "" && batch.Known == (quota.Receipt{}) {
			own.Known = newest.known(a.name)
			own.Newest = func() quota.Receipt {
				newest, _ := a.readNewest() // the next call reports an error: the ledger may be in a transaction
				return newest.known(a.name)
			}
		}
		host := l.now() // before the decision: by a slow answer, calls of an outage would be stamped too early
		a.files.stayInUse(host)
		answers, err := core(ctx, &own)
		if errors.Is(err, quota.ErrInDoubt) && batch.Key == "" {
			l.writeDoubts(a, batch)
		}
		if err != nil {
			return nil, err
		}
		if batch.Key == "" {
			l.write(a, host, batch, answers)
			if err := l.withdraw(ctx, a, batch, answers, changes); err != nil {
				return nil, err
			}
		}
		l.noteCooldowns(a, batch, answers)
		l.noteRefusals(a, &own, answers)
		l.noteRepeated(ctx, a, batch, answers)
		return answers, nil
	}
}

// Standings implements quota.Ledger. It restores first what the ledger lacks of
// calls granted within the allowance.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) (standings []quota.Standing, err error) {
	a := l.account(account)
	err = a.outage.call(ctx, func() error {
		if a.files.isOwed() {
			if err := l.restore(ctx, a, nil, l.clock()); err != nil {
				return err
			}
		}
		standings, err = l.Ledger.Standings(ctx, account, key, charges)
		return err
	})
	return standings, err
}

// withState calls f with what the journal adds up to at present.
func (a *account) withState(f func(*state) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	keep := retention(a.files.farthest())
	if a.state == nil || a.state.keep < keep { // records that were pruned are needed now
		a.state = newState()
	}
	a.state.keep = keep
	if err := a.state.catchUp(a.files); err != nil {
		a.state = nil
		return err
	}
	if !a.files.isOwed() { // else the host's clock may have jumped ahead since
		a.state.prune(a.files.now().UnixMicro() - a.state.skew)
	}
	return f(a.state)
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return quota.RealTime(l.Ledger) }

// Close closes the other ledger too. Calls in flight may fail. Later ones
// return quota.ErrLedgerClosed and do not use the allowance.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	var errs []error
	if l.Ledger != nil {
		errs = append(errs, l.Ledger.Close())
	}
	for _, a := range l.accounts.Range {
		errs = append(errs, a.(*account).files.close())
	}
	return errors.Join(errs...)
}

// isDown reports whether err means that the ledger was down and did nothing.
func isDown(err error) bool {
	return errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig) && !errors.Is(err, quota.ErrInDoubt)
}
