package quota

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// Ledger keeps the logs of accounts: it appends on condition, and reads. All
// processes that use a quota must share one ledger. Packages memledger,
// sqliteledger, redisledger and postgresledger implement it, and package
// ledgertest tests implementations.
type Ledger = engine.Ledger

// What the methods of a Ledger take and return.
type (
	Append = engine.Append
	Read   = engine.Read
	Tail   = engine.Tail
)

// Log decides calls on a Ledger and lists what it holds. Each process folds the
// records of an account's log and decides by that. A Log is safe for concurrent
// use. It is a Ledger too, so that a Guard can be made of it.
//
// A budget is a query on a log: which calls count, since when, and how much
// they may add up to. Limits and windows are not stored, so a change applies at
// once to what is already recorded, and every entry counts for every budget
// that covers it. Charges that say where they are configured are an exception:
// if configurations disagree about the limit of one budget, the lowest limit
// requested within a day applies.
//
// The ledger's own clock decides. Timestamps are whole microseconds and
// strictly increasing within a log. A clock that steps back by up to
// two minutes frees no units early; one that was further ahead is corrected by
// the first process that notices. A ledger's clock that is more than five
// minutes ahead of this host's frees nothing before that.
//
// All methods return an error that wraps ErrLedgerDown or ErrLedgerBusy if
// nothing was done, ErrInDoubt if that is not known, or ErrLedgerConfig if the
// configuration must be corrected first. They return the context's error if the
// context ended before anything was done.
type Log interface {
	Ledger

	// Spend decides the requests of a batch in order, in one atomic step; each
	// request sees those admitted before it. A request is admitted if all of
	// its charges fit and no cooldown is in force, and is then recorded. A
	// refused request is not. Spend returns one Answer for each request. Its Err
	// is nil if the request was granted, or else a *RefusedError, a
	// *NeverFitsError, a *MovedError or an ErrBadCall. An error returned instead
	// of answers applies to the whole batch.
	//
	// Spend is idempotent for a batch with a Client: requests that were granted
	// before get the same answers and are not charged again, and refused ones
	// are decided anew.
	Spend(ctx context.Context, batch *Batch) ([]Answer, error)

	// Settle changes the entry of a grant to what the call really cost, even if
	// that exceeds a limit, and ends its lease. Named measures that amounts lack
	// stay as they are. It is a no-op if the entry is no longer in the log.
	Settle(ctx context.Context, receipt Receipt, amounts Amounts) error

	// Refund makes the entry of a call that was never sent count neither units
	// nor as a call.
	Refund(ctx context.Context, receipt Receipt) error

	// WindowUsages returns the state of each charge's window, all at one time.
	WindowUsages(ctx context.Context, account, key string, charges []*Charge) ([]WindowUsage, error)

	// Entries yields the entries that query selects, in the order of their
	// timestamps. It stops after yielding an error.
	Entries(ctx context.Context, query Query) iter.Seq2[Entry, error]

	// Sums adds up the entries that query selects and yields each Sum, in no
	// particular order. It yields either all sums or only an error.
	Sums(ctx context.Context, query Query) iter.Seq2[Sum, error]

	// SetCooldown sets a cooldown. If one is already in force, the later end
	// applies.
	SetCooldown(ctx context.Context, cooldown Cooldown) error

	// Keys yields the keys of an account that have entries, sorted. It stops
	// after yielding an error.
	Keys(ctx context.Context, account string) iter.Seq2[string, error]

	account(name string) *engine.Account
	end(ctx context.Context, receipt Receipt) error
	recordRefusal(ctx context.Context, r *RefusedError) error
	probe(ctx context.Context, batch *Batch, r *Request) ([]error, error)
}

// Batch is a list of requests on one log, decided in one step.
type Batch struct {
	Account string
	Key     string

	// Client and Seq identify the requests: request i has the ID {Client,
	// Seq+i}. Client is random, and Seq is greater than that of any
	// earlier request of the client. If Client is 0, the ledger chooses the
	// ids, and the batch must not be sent twice.
	Client uint64
	Seq    uint64

	// Once says that this is the only batch of its client. If the ledger
	// remembers a batch of the client with another Seq, Spend decides nothing
	// and returns an ErrReused.
	Once bool

	// History is the least time for which the log keeps its entries, so that
	// they can be listed: 0 to MaxHistory. 0 keeps them as the windows need.
	History time.Duration

	Requests []Request
}

// Request is one call, note or correction as a ledger sees it.
type Request struct {
	Method  string
	Units   Units
	Caller  Caller
	Charges []*Charge // shared between requests and read-only; if empty, the request is granted and recorded

	// Force records the request whatever limits and cooldowns say, for example
	// because the call was already made. A forced request may cost 0 units.
	Force bool

	// Kind is EntryCall, EntryNote or EntryCorrection. A note or a correction
	// must be forced, and its receipt must not be settled.
	Kind EntryKind
	// Together is how many calls that are alike the request is about, all or
	// none, 0 to MaxTogether; 0 is one. The ids of the others follow its own.
	Together int
	// Calls is how many calls a note or a correction counts as, 0 to MaxUnits.
	// It is ignored for an EntryCall, which counts as one.
	Calls Units

	Measures map[Measure]Units // as in Call; those of a note are what it counts
	Lease    time.Duration     // as in Call

	place *place // of a call that may wait; nil for others
}

// Amounts returns what one call of the request counts.
func (r *Request) Amounts() Amounts {
	return Amounts{Units: r.Units, Calls: r.Count(), Named: r.Measures}
}

// Count returns how many calls the request counts as.
func (r *Request) Count() Units {
	if r.Kind == EntryCall {
		return 1
	}
	return r.Calls
}

// Charge is a budget as a ledger sees it: a query on the log, with a limit.
type Charge struct {
	Budget   string // the budget's name, for refusals and cooldowns
	Coverage *Coverage
	Limit    Units
	Keys     map[string]Units // limits of single keys, as in Budget; read-only
	Window   Window

	// Floors reserve parts of Limit: the request must leave the part of each
	// floor that its coverage has not used yet in the window. For a budget with
	// floors, a Guard lists those of all regions but the caller's own.
	Floors []Floor
	// FloorUntil ends the floors of a calendar window this long before
	// Day.Next, in whole microseconds; 0 keeps them until the end. Within the
	// margins around a boundary, a request must fit the ending window without
	// floors and the next window with all of its floors.
	FloorUntil time.Duration

	hasFloors bool // the budget has floors, perhaps none but the caller's own

	Config Config // where Limit is configured; if unknown, it holds whatever others ask

	once   sync.Once
	budget *engine.Budget
}

// limitOf returns the limit for calls with a key.
func (c *Charge) limitOf(key string) Units { return limitOf(c.Keys, key, c.Limit) }

// keyOf returns a call's key if the charge limits each key for itself.
func (c *Charge) keyOf(key string) string {
	if c.Coverage.PerKey {
		return key
	}
	return ""
}

// Floor reserves a part of a limit for the calls of a coverage, which is part
// of the charge's.
type Floor struct {
	Coverage *Coverage
	Units    Units // in the charge's measure, 1 to its Limit
}

// always returns the part of the limit that calls outside the floors can never
// use: units of a floor are either reserved or used.
func (c *Charge) always() (kept Units) {
	if c.FloorUntil == 0 {
		for _, floor := range c.Floors {
			kept += floor.Units
		}
	}
	return kept
}

// Answer is the decision on one request. If Err is nil, the request was granted
// and Receipt identifies its entry.
type Answer struct {
	Others  []ID          // of a request for several calls: the ids of the others
	Receipt Receipt       // of a refused request: without ID and At
	Held    []engine.Held // one for each charge, in order; empty for a repeated request or without a ledger
	Err     error

	// Repeated is set if the request was granted before and is not charged now:
	// its entries as they are at present. Calls that were refunded since must be
	// requested under another id.
	Repeated []Entry
}

// Check returns an ErrBadCall if the request is malformed, or a *NeverFitsError
// if it costs more than a limit. Ledgers call it before they decide a request.
func (r *Request) Check(account, key string) error {
	least := Units(1)
	if r.Force || len(r.Measures) > 0 {
		least = 0
	}
	switch {
	case r.Units < least || r.Units > MaxUnits:
		return fmt.Errorf("%w: %q costs %d units; give %d to %d", ErrBadCall, r.Method, r.Units, least, MaxUnits)
	case max(len(r.Method), r.Caller.longest()) > MaxLabel:
		return fmt.Errorf("%w: a method, lane, job or region of more than %d bytes; shorten it", ErrBadCall, MaxLabel)
	case r.Kind != EntryCall && !(r.Force && r.Kind.isAdjustment()):
		return fmt.Errorf("%w: %q is a %s, not a call; force it, as a note or a correction", ErrBadCall, r.Method,
			r.Kind)
	case r.Calls < 0 || r.Calls > MaxUnits:
		return fmt.Errorf("%w: %q counts %d calls; give 0 to %d", ErrBadCall, r.Method, r.Calls, MaxUnits)
	case r.Lease < 0 || r.Lease > maxLease:
		return fmt.Errorf("%w: a lease of %s; give 0 to %s", ErrBadCall, r.Lease, human.Exactly(maxLease))
	}
	if err := r.Amounts().check(); err != nil || r.Force {
		return err
	}
	for _, charge := range r.Charges {
		limit := charge.limitOf(key)
		if needed, kept := r.needs(charge), charge.always(); needed > limit-kept {
			return &NeverFitsError{Account: account, Key: charge.keyOf(key), Budget: charge.Budget, Method: r.Method,
				Measure: charge.Coverage.Measure, Limit: limit, Kept: kept, Needed: needed, Calls: r.Together}
		}
	}
	return nil
}

// needs returns how much of a charge must be left for the request, as the
// engine decides it.
func (r *Request) needs(c *Charge) Units {
	amount := r.Amounts().Of(c.Coverage.Measure)
	switch {
	case c.Coverage.Measure == Errors: // none before the answer, but there must be room for one
		return max(amount, 1)
	case c.Window.Kind() == KindInFlight: // in which several count as one
		return amount
	}
	return Units(max(r.Together, 1)) * amount
}

// maxLease is the longest Call.Lease.
const maxLease = 24 * time.Hour

// Check returns an ErrBadCall if the account, key or history is malformed.
func (b *Batch) Check() error {
	if b.Account == "" {
		return fmt.Errorf("%w: no account; name the upstream project whose quota it is", ErrBadCall)
	}
	if len(b.Account) > maxName {
		return fmt.Errorf("%w: an account of more than %d bytes; shorten it", ErrBadCall, maxName)
	}
	if err := CheckKey(b.Key); err != nil {
		return err
	}
	if b.History < 0 || b.History > MaxHistory || b.History%time.Microsecond != 0 {
		return fmt.Errorf("%w: a history of %s; give 0 to %s, in whole microseconds", ErrBadCall, b.History, MaxHistory)
	}
	return nil
}

// CheckKey returns an ErrBadCall if a key is too long, or not text.
func CheckKey(key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) {
		return fmt.Errorf("%w: a key of %d bytes; give text of at most %d", ErrBadCall, len(key), MaxKey)
	}
	return nil
}

// opError adds the operation to an error. It returns nil for nil.
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(op), err) // a call may have no method
}
