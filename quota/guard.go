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
	ledger   Ledger
	engine   *engine.Engine // on ledger
	outage   *outage
	options  Options
	budgets  []Budget
	history  map[string]time.Duration // by account
	accounts map[string][]chargedBudget

	chargeSets chargeSets
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
	*charge                     // of calls without a floor of their own
	byRegion map[string]*charge // of calls of each region with a floor
}

// chargeFor returns what calls of a region are charged to.
func (b *chargedBudget) chargeFor(region string) *charge {
	if charge := b.byRegion[region]; charge != nil {
		return charge
	}
	return b.charge
}

// chargesOf returns the charges of budgets for calls without a floor.
func chargesOf(budgets []chargedBudget) []*charge {
	charges := make([]*charge, len(budgets))
	for i := range budgets {
		charges[i] = budgets[i].charge
	}
	return charges
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
	g := &Guard{ledger: ledger, budgets: append([]Budget(nil), budgets...), accounts: map[string][]chargedBudget{},
		history: map[string]time.Duration{}}
	if o != nil {
		g.options = *o
		maps.Copy(g.history, o.History)
	}
	o = &g.options
	g.queue.priority, g.outage = o.Priority, newOutage(o)
	g.share, g.pace = newRunShare(o.MaxShare), newPacer(o.Paced)
	g.chargeSets.byClass.Store(&map[callClass]*chargeSet{})
	g.refusals.on, g.refusals.base = engine.RealTime(ledger), time.Now()
	g.engine = engine.New(g.outage.watch(ledger), &engine.Options{Host: o.Host, TestClock: !g.refusals.on,
		Replica: o.Replica, Restored: o.Restored})
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
		coverage, byRegion := b.CoverageAmong(g.budgets), map[string]*charge{}
		for region := range b.Floor {
			byRegion[region] = b.newCharge(i, region, coverage)
		}
		g.accounts[b.Account] = append(g.accounts[b.Account], chargedBudget{b.newCharge(i, "", coverage), byRegion})
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
			coverages[b.coverage.Text()] = true
			for _, floor := range b.floors {
				coverages[floor.coverage.Text()] = true
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
	r := g.request(ctx, call, 1)
	grant, err := g.spend(ctx, r)
	g.decided(r, time.Time{}, err)
	return grant, err
}

// record charges a call that has been sent without being charged before,
// whatever the budgets say.
func (g *Guard) record(ctx context.Context, call Call) (*Grant, error) {
	r := g.request(ctx, call, 1)
	r.force = true
	grant, err := g.spend(context.WithoutCancel(ctx), r)
	g.decided(r, time.Time{}, err)
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
	r := g.request(ctx, note.Call, 1)
	r.force, r.calls = true, note.Calls
	if r.kind = note.Kind; r.kind == EntryCall {
		r.kind = EntryNote
	}
	_, err := g.spend(context.WithoutCancel(ctx), r)
	return err
}

// Ledger returns the ledger that was passed to NewGuard.
func (g *Guard) Ledger() Ledger { return g.ledger }

// Account returns the log of an account as the guard decides by it, for the
// other packages of this module.
func (g *Guard) Account(name string) *engine.Account { return g.engine.Account(name) }

// spend asks the ledger to record what is requested, if it fits or must be
// recorded. Calls that were recorded before under their ids, and refunded
// since, are recorded anew.
func (g *Guard) spend(ctx context.Context, r *request) (grant *Grant, err error) {
	isCached := r.isCached()
	if isCached && r.left == 0 {
		if err := g.refusals.lookup(r); err != nil {
			return nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if !r.force {
		if err := g.takeOwn(ctx, r); err != nil {
			return nil, err
		}
		defer func() { g.giveBackOwn(r, err) }()
	}
	for {
		start, down := g.refusals.start(), g.outage.isDown()
		var answer *engine.Answer
		if down == nil {
			answers, err := g.Account(r.Account).Spend(ledgerContext(ctx), g.engineRequest(r))
			switch {
			case g.outage.failed(err):
				down = err
			case err != nil:
				return nil, opError("spend "+r.Method, err)
			default:
				answer = answers[0]
			}
		}
		if down != nil {
			if answer, err = g.fallBack(ctx, r, down); err != nil {
				if isCached {
					g.refusals.store(r, err, start)
				}
				return nil, err
			}
		}
		if r.left > 0 { // else a refusal has ended the ticket
			r.ticket = answer.Ticket
		}
		if err := r.checkReuse(answer); err != nil {
			return nil, opError("spend "+r.Method, err)
		}
		if answer.Refusal != nil {
			err := r.refusal(answer.Refusal, answer.At)
			if isCached {
				g.refusals.store(r, err, start)
			}
			return nil, err
		}
		grant, isRefunded := g.grants(r, answer)
		if !isRefunded {
			return grant, nil
		}
		r.id = r.id.derived("")
	}
}

// takeOwn takes calls out of what this process may spend: its share, and the
// pace of the lane. The caller must give them back if they are not granted.
func (g *Guard) takeOwn(ctx context.Context, r *request) error {
	if err := g.share.take(ctx, g, r); err != nil {
		return err
	}
	err := g.pace.take(ctx, g, r)
	if err != nil {
		g.share.change(r.set, r.Key, r.Amounts().Times(r.count), Amounts{})
	}
	return err
}

// giveBackOwn gives back calls that were not granted. What is in doubt counts.
func (g *Guard) giveBackOwn(r *request, err error) {
	if err == nil || errors.Is(err, ErrInDoubt) {
		return
	}
	g.share.change(r.set, r.Key, r.Amounts().Times(r.count), Amounts{})
	g.pace.giveBack(r)
}

// Retention returns how long the ledger keeps an account's entries to serve
// this guard. It is 0 if the account has neither budgets nor a history.
func (g *Guard) Retention(account string) time.Duration {
	longest := g.history[account]
	for _, b := range g.accounts[account] {
		longest = max(longest, b.Horizon())
	}
	if longest == 0 {
		return 0
	}
	return engine.Retention(longest)
}

// Covering returns the budgets that call would be charged to.
func (g *Guard) Covering(call Call) []Budget {
	var covering []Budget
	for _, b := range g.accounts[call.Account] {
		if b.isCharged(&call) {
			covering = append(covering, *b.Budget)
		}
	}
	return covering
}
