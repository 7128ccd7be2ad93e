package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Guard charges calls to the budgets that cover them. It is safe for
// concurrent use. Any number of Guards, in any number of processes, may share a
// ledger.
type Guard struct {
	ledger   Ledger
	budgets  []Budget
	history  map[string]time.Duration // by account
	accounts map[string][]guarded

	plans struct {
		latest atomic.Pointer[plan]              // most calls are like the one before
		byCall atomic.Pointer[map[planKey]*plan] // replaced, never written to
		adding sync.Mutex
	}
	asked    sync.Pool // of *asked
	line     line
	refusals memory
	others   otherSpenders
	reported sync.Map // what firstTime was asked for; few: budgets and methods
}

// guarded is a budget with what a ledger needs of it, made once.
type guarded struct {
	budget int // its place in Guard.budgets
	charge *Charge
	own    map[string]*Charge // of the regions that have a floor
}

// of returns the budget as a call of a region is charged to it.
func (b *guarded) of(region string) *Charge {
	if own := b.own[region]; own != nil {
		return own
	}
	return b.charge
}

// plan is what calls of one account, method, lane and region are charged to.
type plan struct {
	key     planKey
	charges []*Charge
	budgets []int // that the charges are of: places in Guard.budgets
	history time.Duration
	refused refused // of the calls without a Key
}

// planKey is all of a call that decides which budgets cover it.
type planKey struct{ account, method, lane, region string }

// MaxCoverages is how many different coverages the budgets of one account may
// have. Each floor has a coverage of its own.
const MaxCoverages = 64

// maxPlans bounds the remembered plans: methods and regions may come from
// outside.
const maxPlans = 1024

// Options are the options of NewGuard. The zero value is the default.
type Options struct {
	// History is the least time for which the ledger keeps the entries of each
	// account, so that they can be listed: 0 to MaxHistory. With 0 the ledger
	// keeps them only for as long as a budget's window needs them.
	History map[string]time.Duration
}

// NewGuard returns a Guard that charges calls to budgets and records them in
// ledger. A nil *Options is the default. The error lists every mistake in the
// budgets and options.
func NewGuard(ledger Ledger, budgets []Budget, o *Options) (*Guard, error) {
	if ledger == nil {
		return nil, errors.New("quota: new guard: no ledger; open one of memledger, sqliteledger, redisledger")
	}
	g := &Guard{ledger: ledger, budgets: append([]Budget(nil), budgets...), accounts: map[string][]guarded{}}
	if o != nil {
		g.history = maps.Clone(o.History)
	}
	g.plans.byCall.Store(&map[planKey]*plan{})
	g.refusals.on, g.refusals.base = RealTime(ledger), time.Now()
	coverages := Coverages(g.budgets)
	var errs []error
	for account, history := range g.history {
		if history < 0 || history > MaxHistory || history%time.Microsecond != 0 {
			errs = append(errs, fmt.Errorf("account %q: a history of %s; give 0 to %s, in whole microseconds", account, history, shortDuration(MaxHistory)))
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
			errs = append(errs, fmt.Errorf("budget %q: named twice in account %q; give it another name", b.Name, b.Account))
		} else {
			names[name] = true
		}
		own := map[string]*Charge{}
		for region := range b.Floor {
			own[region] = b.charge(region, coverages[i])
		}
		g.accounts[b.Account] = append(g.accounts[b.Account], guarded{i, b.charge("", coverages[i]), own})
	}
	for account, budgets := range g.accounts {
		coverages := map[string]bool{}
		for _, b := range budgets {
			coverages[b.charge.Coverage.Key()] = true
			for _, floor := range b.charge.Floors {
				coverages[floor.Coverage.Key()] = true
			}
		}
		if len(coverages) > MaxCoverages {
			errs = append(errs, fmt.Errorf("account %q: budgets of %d different coverages; have at most %d, floors included", account, len(coverages), MaxCoverages))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("quota: new guard: %w", errors.Join(errs...))
	}
	return g, nil
}

// Spend charges call to every budget that covers it, and returns at once. A
// call that no budget covers is granted and recorded.
//
// If Spend returns an error, the call must not be made. The error is a
// *RefusedError, a *NeverFitsError, the context's error, or wraps ErrBadCall,
// ErrLedgerDown, ErrLedgerConfig, ErrLedgerLost or ErrInDoubt.
func (g *Guard) Spend(ctx context.Context, call Call) (*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	return g.spend(ctx, &call, g.plan(&call), manner{})
}

// record charges a call that has been sent without being charged before,
// whatever the budgets say.
func (g *Guard) record(ctx context.Context, call Call) (*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	return g.spend(context.WithoutCancel(ctx), &call, g.plan(&call), manner{force: true})
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
	_, err := g.spend(context.WithoutCancel(ctx), &note.Call, g.plan(&note.Call), note.manner())
	return err
}

func (n *Note) manner() manner {
	m := manner{force: true, kind: n.Kind, calls: n.Calls}
	if m.kind == EntryCall {
		m.kind = EntryNote
	}
	return m
}

// manner is how something is entered into the log; its zero value is a call, if
// it fits.
type manner struct {
	force bool
	kind  EntryKind
	calls Units // of a note or a correction
}

// asked is what one spend asks its ledger.
type asked struct {
	batch    Batch
	requests [1]Request
}

func (g *Guard) spend(ctx context.Context, call *Call, plan *plan, as manner) (*Grant, error) {
	if !as.force {
		if err := g.refusals.recall(call, plan); err != nil {
			return nil, err
		}
	}
	began := g.refusals.begin()
	a, _ := g.asked.Get().(*asked)
	if a == nil {
		a = new(asked)
		a.batch.Requests = a.requests[:]
	}
	r := &a.requests[0]
	r.Method, r.Units, r.Caller, r.Charges = call.Method, call.Units, call.Caller, plan.charges
	r.Force, r.Kind, r.Calls = as.force, as.kind, as.calls
	a.batch.Account, a.batch.Key, a.batch.History = call.Account, call.Key, plan.history
	answers, err := g.ledger.Spend(ctx, &a.batch)
	if err != nil {
		return nil, opError("spend "+call.Method, err)
	}
	g.asked.Put(a) // after an error the ledger may still look at it
	if err := refusedFor(call, answers[0].Err); err != nil {
		g.refusals.remember(call, plan, err, began)
		return nil, err
	}
	return &Grant{guard: g, plan: plan, receipt: answers[0].Receipt, held: answers[0].Held, units: call.Units}, nil
}

// refusedFor returns a ledger's answer to a call; a refusal then says whose
// call it was.
func refusedFor(call *Call, err error) error {
	no, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	refused := *no // the ledger's own may be shared with other calls
	refused.Units, refused.Caller = call.Units, call.Caller
	return &refused
}

// plan returns what call is charged to.
func (g *Guard) plan(call *Call) *plan {
	key := planKey{call.Account, call.Method, call.Caller.Lane, call.Caller.Region}
	if latest := g.plans.latest.Load(); latest != nil && latest.key == key {
		return latest
	}
	if known := (*g.plans.byCall.Load())[key]; known != nil {
		g.plans.latest.Store(known)
		return known
	}
	g.plans.adding.Lock()
	defer g.plans.adding.Unlock()
	plans := *g.plans.byCall.Load()
	if known := plans[key]; known != nil {
		return known
	}
	made := &plan{key: key, history: g.history[call.Account]}
	for _, b := range g.accounts[call.Account] {
		if b.charge.Coverage.Covers(call.Method, call.Caller) {
			made.charges, made.budgets = append(made.charges, b.of(call.Caller.Region)), append(made.budgets, b.budget)
		}
	}
	more := map[planKey]*plan{key: made}
	if len(plans) < maxPlans {
		maps.Copy(more, plans)
	}
	g.plans.byCall.Store(&more)
	return made
}

// Retention returns how long the ledger keeps an account's entries to serve
// this guard. It is 0 if all budgets of the account have Counter windows, which
// need no entries, and there is no Options.History.
func (g *Guard) Retention(account string) time.Duration {
	longest := g.history[account]
	exact := longest > 0
	for _, b := range g.accounts[account] {
		longest = max(longest, b.charge.Window.Horizon())
		exact = exact || !b.charge.Window.Estimate()
	}
	if !exact {
		return 0
	}
	return Retention(longest)
}

// Ledger returns the ledger that was passed to NewGuard.
func (g *Guard) Ledger() Ledger { return g.ledger }

// Covering returns the budgets that call would be charged to.
func (g *Guard) Covering(call Call) []Budget {
	var covering []Budget
	for _, b := range g.accounts[call.Account] {
		if b.charge.Coverage.Covers(call.Method, call.Caller) {
			covering = append(covering, g.budgets[b.budget])
		}
	}
	return covering
}

// Cool sets a cooldown, which refuses calls in all processes that share the
// ledger.
func (g *Guard) Cool(ctx context.Context, cooldown Cooldown) error {
	defer g.refusals.forget()
	return opError("cooldown", g.ledger.SetCooldown(context.WithoutCancel(ctx), cooldown))
}

// Uncool clears the cooldown of a budget or, if budget is empty, of the whole
// account.
func (g *Guard) Uncool(ctx context.Context, account, budget string) error {
	defer g.refusals.forget()
	return opError("clear cooldown", g.ledger.ClearCooldown(ctx, account, budget))
}
