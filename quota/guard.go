package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// Guard charges calls to the budgets that cover them. It is safe for concurrent
// use. Any number of Guards, in any number of processes, may share a ledger.
type Guard struct {
	log      Log
	budgets  []Budget
	history  map[string]time.Duration // by account
	accounts map[string][]chargedBudget

	chargeSets chargeSets
	buffers    sync.Pool // of *spendBuffer
	queue      waitQueue
	refusals   refusalCache
	share      *runShare
	pace       *pacer
	external   externalUsage
	reported   sync.Map // what firstReport has seen; few, since they are budgets and methods
	observer   atomic.Pointer[func(Decision)]
}

// chargedBudget is a budget with the charges made of it.
type chargedBudget struct {
	index  int                // in Guard.budgets
	charge *Charge            // of calls without a floor of their own
	floors map[string]*Charge // of calls of each region with a floor
}

// chargeFor returns what calls of a region are charged to.
func (b *chargedBudget) chargeFor(region string) *Charge {
	if charge := b.floors[region]; charge != nil {
		return charge
	}
	return b.charge
}

// Options are the options of NewGuard. The zero value is the default.
type Options struct {
	// History is the least time for which the ledger keeps the entries of each
	// account, so that they can be listed: 0 to MaxHistory. With 0 the ledger
	// keeps them only for as long as a budget's window needs them.
	History map[string]time.Duration

	// Host is the name of this host, which records carry; it may be empty.
	Host string

	// Replica keeps this host's copy of the logs, from which a ledger that has
	// lost data is restored: see internal/replica. With nil, a process restores
	// what it has received itself.
	Replica engine.Replica

	// Allowance says what may be sent while the ledger is down. It needs a
	// Replica that counts it. With nil, nothing may be sent.
	Allowance *Allowance

	// Priority returns the priority of an account's lane, 0 or more: of calls
	// that wait for the same budget, those of a higher one are granted first. It
	// must be safe for concurrent use. nil means 0 for every lane.
	Priority func(account, lane string) int

	// Paced reports whether the calls of an account's lane are spread over what
	// is left of the windows of their budgets, beside what other lanes are
	// expected to use: as much as a window ago. Their calls are refused with
	// ReasonPace until their time has come. Budgets of less than an hour, per
	// key, in flight and with a bucket do not pace. It must be safe for
	// concurrent use. nil paces none.
	Paced func(account, lane string) bool

	// MaxShare, if it is above 0, is the part, up to 1, that the Guard may take
	// of what is left of each budget when it first charges a call to it. Then
	// calls are refused with ReasonShare. It is for a Guard of one run. Budgets
	// of less than an hour and of calls in flight are not shared.
	MaxShare float64

	// Restored is called when a ledger that had lost records got them back from
	// this host; nil is a no-op.
	Restored func(engine.Restoration)
}

// NewGuard returns a Guard that charges calls to budgets and records them in
// ledger. A nil *Options is the default. The error lists every mistake in the
// budgets and options.
func NewGuard(ledger Ledger, budgets []Budget, o *Options) (*Guard, error) {
	if ledger == nil {
		return nil, errors.New("quota: new guard: no ledger; open one of memledger, sqliteledger, redisledger")
	}
	g := &Guard{log: logOn(ledger, o), budgets: append([]Budget(nil), budgets...),
		accounts: map[string][]chargedBudget{}}
	g.history = map[string]time.Duration{}
	if o != nil {
		maps.Copy(g.history, o.History)
		g.queue.priority = o.Priority
		g.share, g.pace = newRunShare(o.MaxShare), newPacer(o.Paced)
	}
	g.chargeSets.byClass.Store(&map[callClass]*chargeSet{})
	g.refusals.on = engine.RealTime(g.log)
	g.refusals.base = time.Now()
	var errs []error
	for account, history := range g.history {
		if history < 0 || history > MaxHistory || history%time.Microsecond != 0 {
			errs = append(errs, fmt.Errorf("account %q: a history of %s; give 0 to %s, in whole microseconds", account,
				history, human.Exactly(MaxHistory)))
		}
	}
	names := map[[2]string]bool{}
	for i := range g.budgets {
		b := &g.budgets[i]
		if err := b.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if name := [2]string{b.Account, b.Name}; names[name] {
			errs = append(errs, fmt.Errorf("budget %q: named twice in account %q; give it another name", b.Name,
				b.Account))
		} else {
			names[name] = true
		}
		if b.Shadow {
			g.history[b.Account] = max(g.history[b.Account], min(2*b.Horizon(), MaxHistory))
		}
		coverage, floors := b.CoverageAmong(g.budgets), map[string]*Charge{}
		for region := range b.Floor {
			floors[region] = b.charge(region, coverage)
		}
		g.accounts[b.Account] = append(g.accounts[b.Account], chargedBudget{i, b.charge("", coverage), floors})
	}
	if errs = append(errs, g.checkCoverages()...); len(errs) > 0 {
		return nil, fmt.Errorf("quota: new guard: %w", errors.Join(errs...))
	}
	return g, nil
}

func (g *Guard) checkCoverages() (errs []error) {
	for account, budgets := range g.accounts {
		coverages := map[string]bool{}
		for _, b := range budgets {
			coverages[b.charge.Coverage.Key()] = true
			for _, floor := range b.charge.Floors {
				coverages[floor.Coverage.Key()] = true
			}
		}
		if n := len(coverages); n > MaxCoverages {
			errs = append(errs, fmt.Errorf("account %q: budgets of %d different coverages; "+
				"have at most %d, floors included", account, n, MaxCoverages))
		}
	}
	return errs
}

// Spend charges call to every budget that covers it, and returns at once. A
// call that no budget covers is granted and recorded.
//
// If Spend returns an error, the call must not be made. The error is a
// *RefusedError, a *NeverFitsError, the context's error, or wraps ErrBadCall,
// ErrLedgerDown, ErrLedgerBusy, ErrLedgerConfig or ErrInDoubt.
func (g *Guard) Spend(ctx context.Context, call Call) (*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	set := g.chargesFor(&call)
	grant, err := g.spend(ctx, &call, set, entryMode{})
	g.decided(&call, 1, time.Time{}, err)
	return grant, err
}

// record charges a call that has been sent without being charged before,
// whatever the budgets say.
func (g *Guard) record(ctx context.Context, call Call) (*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	set := g.chargesFor(&call)
	grant, err := g.spend(context.WithoutCancel(ctx), &call, set, entryMode{force: true})
	if observe := g.observer.Load(); observe != nil {
		(*observe)(Decision{Call: call, Count: 1, Budgets: set.budgets, Recorded: true, Err: err})
	}
	return grant, err
}

// Note is an adjustment of an account's log that is not a call: a remark, usage
// by programs that do not share the ledger, or a correction.
type Note struct {
	Call            // Units may be 0
	Calls Units     // what budgets that count calls add, 0 to MaxUnits
	Kind  EntryKind // EntryNote or EntryCorrection; the zero value means EntryNote
}

// Note records an adjustment that is not a call. It counts for every budget
// that covers it. It is never refused, and cannot be settled or refunded.
func (g *Guard) Note(ctx context.Context, note Note) error {
	note.Caller = note.Caller.or(CallerFrom(ctx))
	mode := entryMode{force: true, kind: note.Kind, calls: note.Calls}
	if mode.kind == EntryCall {
		mode.kind = EntryNote
	}
	_, err := g.spend(context.WithoutCancel(ctx), &note.Call, g.chargesFor(&note.Call), mode)
	return err
}

// requestOf returns the request of some calls that are alike.
func requestOf(call *Call, charges []*Charge, count int) Request {
	r := Request{Method: call.Method, Units: call.Units, Measures: call.Measures, Lease: call.Lease,
		Caller: call.Caller, Charges: charges}
	if count > 1 {
		r.Together = count
	}
	return r
}

// entryMode is how a call is recorded. The zero value records a call if
// it fits.
type entryMode struct {
	force bool
	kind  EntryKind
	calls Units  // of a note or a correction
	place *place // of a call that may wait; nil for others
	count int    // how many calls that are alike, all or none; 0 is one
}

// spendBuffer is a batch of one request. It is reused, so that a spend
// allocates little.
type spendBuffer struct {
	batch    Batch
	requests [1]Request
}

func (g *Guard) spend(ctx context.Context, call *Call, set *chargeSet, mode entryMode) (*Grant, error) {
	if isFirst := mode.place == nil || mode.place.left == 0; isFirst && !mode.force && mode.count < 2 {
		if err := g.refusals.lookup(call, set); err != nil {
			return nil, err
		}
	}
	if mode.force {
		return g.spendOnce(ctx, call, set, mode)
	}
	count := max(mode.count, 1)
	if err := g.takeOwn(ctx, call, set, count); err != nil {
		return nil, err
	}
	grant, err := g.spendOnce(ctx, call, set, mode)
	g.giveBackOwn(call, set, count, err)
	return grant, err
}

// takeOwn takes calls out of what this process may spend: its share, and the
// pace of the lane. The caller must give them back if they are not granted.
func (g *Guard) takeOwn(ctx context.Context, call *Call, set *chargeSet, count int) error {
	if err := g.share.take(ctx, g, call, set, count); err != nil {
		return err
	}
	err := g.pace.take(ctx, g, call, set, count)
	if err != nil {
		g.share.change(set, call.Key, call.Amounts().Times(count), Amounts{})
	}
	return err
}

// giveBackOwn gives back calls that were not granted. What is in doubt counts.
func (g *Guard) giveBackOwn(call *Call, set *chargeSet, count int, err error) {
	if err == nil || errors.Is(err, ErrInDoubt) {
		return
	}
	g.share.change(set, call.Key, call.Amounts().Times(count), Amounts{})
	g.pace.giveBack(call, set, count)
}

// spendOnce asks the ledger to record calls, if they fit or as mode says. Those
// that were recorded before under their ids, and refunded since, are recorded
// anew.
func (g *Guard) spendOnce(ctx context.Context, call *Call, set *chargeSet, mode entryMode) (*Grant, error) {
	start := g.refusals.start()
	buffer, _ := g.buffers.Get().(*spendBuffer)
	if buffer == nil {
		buffer = new(spendBuffer)
		buffer.batch.Requests = buffer.requests[:]
	}
	buffer.requests[0] = requestOf(call, set.charges, mode.count)
	r := &buffer.requests[0]
	r.Force, r.Kind = mode.force, mode.kind
	r.Calls, r.place = mode.calls, mode.place
	buffer.batch.Account = call.Account
	buffer.batch.Key = call.Key
	buffer.batch.Client, buffer.batch.Seq = call.ID.Client, call.ID.Seq
	buffer.batch.Once = call.ID != (ID{})
	buffer.batch.History = set.history
	answers, err := g.log.Spend(ledgerContext(ctx), &buffer.batch)
	if err != nil {
		return nil, opError("spend "+call.Method, err) // the ledger may still read the buffer
	}
	g.buffers.Put(buffer)
	if err := refusalFor(call, answers[0].Err); err != nil {
		if mode.count < 2 {
			g.refusals.store(call, set, err, start)
		}
		return nil, err
	}
	answer := &answers[0]
	grant, isRefunded := g.newGrant(call, set, answer, 0, answer.Receipt.ID)
	for i, id := range answer.Others {
		other, isToo := g.newGrant(call, set, answer, i+1, id)
		grant.others, isRefunded = append(grant.others, other), isRefunded || isToo
	}
	if isRefunded {
		again := *call
		again.ID = call.ID.derived("")
		return g.spendOnce(ctx, &again, set, mode)
	}
	return grant, nil
}

// newGrant returns the grant of one of the calls that an answer is about.
// isRefunded means that it was granted before, and refunded since.
func (g *Guard) newGrant(call *Call, set *chargeSet, answer *Answer, i int, id ID) (grant *Grant, isRefunded bool) {
	grant = &Grant{guard: g, set: set, job: call.Caller.Job, receipt: answer.Receipt, held: answer.Held,
		units:    call.Units,
		measures: call.Measures, isOpen: call.Lease > 0 || set.lease > 0}
	grant.receipt.ID, grant.receipt.At = id, answer.Receipt.At.Add(time.Duration(i)*time.Microsecond)
	return grant, i < len(answer.Repeated) && grant.repeat(answer.Repeated[i])
}

// refusalFor adds the cost and the caller of a call to a refusal by the ledger.
// It returns any other error as it is.
func refusalFor(call *Call, err error) error {
	byLedger, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	refused := *byLedger // which other calls may share
	refused.Units = call.Units
	refused.Caller = call.Caller
	return &refused
}

// Retention returns how long the ledger keeps an account's entries to serve
// this guard. It is 0 if the account has neither budgets nor a history.
func (g *Guard) Retention(account string) time.Duration {
	longest := g.history[account]
	for _, b := range g.accounts[account] {
		longest = max(longest, b.charge.Horizon())
	}
	if longest == 0 {
		return 0
	}
	return engine.Retention(longest)
}

// Log returns the log that the guard decides by.
func (g *Guard) Log() Log { return g.log }

// Covering returns the budgets that call would be charged to.
func (g *Guard) Covering(call Call) []Budget {
	var covering []Budget
	for _, b := range g.accounts[call.Account] {
		if b.isCharged(g, &call) {
			covering = append(covering, g.budgets[b.index])
		}
	}
	return covering
}
