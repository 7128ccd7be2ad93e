package quota

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Ledger records spends and decides whether to admit them. All processes that
// use a quota must share one ledger. Implementations are safe for concurrent
// use. Package ledgertest tests what follows.
//
// A ledger keeps one log for each account, and one for each account and key of
// keyed calls. A budget is a query on such a log: which calls count, since
// when, and how much they may add up to. Each request carries the limits,
// windows and coverages that apply to it. A ledger therefore needs no setup,
// and a change applies at once to what is already recorded. Every entry counts
// for every budget that covers it, even for budgets that the spending process
// did not know. The totals of a new coverage are computed from the log.
//
// Charges that say where they are configured are an exception. If
// configurations disagree about the limit of one budget, the lowest limit
// requested within LimitHold applies; it ends at most 2*LimitRecord later. What
// a configuration requests replaces what it requested before it was changed,
// and ClearLimits ends the limits of all. Charges with equal Identity are one
// budget; keys share the limits of their account. Answers say which limit held.
//
// A Counter window is answered from two counts and the start of their period,
// whatever the number of calls. A log that has only ever served Counter
// windows, without Batch.History, keeps these counts and no entries. In such a
// log:
//
//   - a new coverage starts at zero;
//   - the first window of another kind starts at zero too, and from then on the
//     log keeps entries;
//   - Settle and Refund rely on Receipt.Recorded;
//   - a lost answer cannot be looked up, so the Spend, or the Settle to a lower
//     cost, returns ErrInDoubt.
//
// A log keeps an entry for as long as the longest window in use can see it, or
// for Batch.History if that is longer, and then for the slack that Retention
// adds. A window is in use until no request has named it for a day and for
// twice its Horizon.
//
// The ledger's own clock decides; the clocks of its clients do not matter.
// Timestamps are whole microseconds and strictly increasing within a log: if
// the clock has not advanced, or has stepped back, a new entry is one
// microsecond later than the newest one. A clock that steps back by up to
// MaxStepBack frees no units early. Entries whose timestamps are further ahead
// count in every window until the clock reaches them. Answers then report how
// far ahead the newest one is (Ahead), and Restamp repairs the log.
//
// An account without a log is refused with a *LookAlikeError if its name
// differs from that of another account only in case or in spaces around it.
//
// RetryAt in a refusal is never later than the longest window of the request's
// charges from now, or the end of a cooldown. It is exact unless timestamps
// are ahead of the clock; if they are, by up to MaxStepBack, it may be late by
// as much.
//
// A clock that jumps ahead would free every window. A batch can therefore carry
// its caller's time (Batch.Clock): where the two disagree and the log has no
// recent entry that supports the ledger's clock, nothing is decided or dropped.
// A ledger whose clock is its callers' own can check another clock, such as the
// time since the host's start. While the two disagree, a call must fit at both
// times, or else gets a *ClockError; Batch.Upstream may settle which is right.
//
// A log has an epoch: a random number of one life of it. A log that was deleted
// has another one when it is created again, and so has an older copy of a log
// once a client has restored what it lacks. Each Receipt carries the epoch, and
// a client that passes the newest one on in Batch.Known is not granted anything
// by a log that has forgotten it. A ledger whose data can be replaced by an
// older copy looks for the entry itself, when its connection or file is new and
// once a minute; the other checks cost nothing.
//
// All methods return an error that wraps ErrLedgerDown or ErrLedgerBusy if
// nothing was done, ErrInDoubt if that is not known, or ErrLedgerConfig if the
// configuration must be corrected first. They return the context's error if the
// context ended before anything was done.
type Ledger interface {
	// Spend decides the requests of a batch in order, in one atomic step; each
	// request sees those admitted before it. A request is admitted if all of
	// its charges fit and no cooldown is in force, and is then recorded as one
	// entry. A refused request writes nothing. Spend returns one Answer for
	// each request. Its Err is nil if the request was granted, or else a
	// *RefusedError, a *NeverFitsError or an ErrBadCall. An error returned
	// instead of answers applies to the whole batch.
	//
	// Spend is idempotent for a batch with a Client: requests that were granted
	// before get the same answers and are not charged again, and refused ones
	// are decided anew. The ledger remembers the last batch of each client for
	// at least ten minutes. A client sends its batches in the order of Seq; the
	// answer to an older batch is unspecified.
	Spend(ctx context.Context, batch *Batch) ([]Answer, error)

	// Settle changes the entry of a grant to what the call really cost, even if
	// that exceeds a limit. It is a no-op if the entry is no longer in the log.
	// If more than MaxSettle entries are newer, Settle returns ErrStays for a
	// lower cost and records the difference to a higher cost as a new entry; a
	// late retry may then add the difference twice. If a log was not keeping
	// entries when the call was granted, Settle changes the counts by the
	// difference to Receipt.Recorded, and returns ErrStays for a lower cost if
	// that is Shared. If another life of the log has granted the call, it
	// lowers nothing: this one may never have counted it.
	Settle(ctx context.Context, receipt Receipt, units Units) error

	// Refund makes the entry of a call that was never sent count neither units
	// nor as a call. It returns ErrStays if more than MaxSettle entries are
	// newer or, for a call without an entry, if Receipt.Recorded is Shared. The
	// log then forgets the request, so that a repeat is charged.
	Refund(ctx context.Context, receipt Receipt) error

	// Standings returns the state of each charge's window, all at one time. It
	// writes nothing.
	Standings(ctx context.Context, account, key string, charges []*Charge) ([]Standing, error)

	// Entries yields the entries that query selects, in the order of their
	// timestamps. It reads them in pages, so that a long log never delays
	// spends; the cost of the first n entries does not depend on the length of
	// the log. It stops after yielding an error.
	Entries(ctx context.Context, query Query) iter.Seq2[Entry, error]

	// Sums adds up the entries that query selects and yields each Sum, in no
	// particular order. A log without entries has no sums. Like Entries it
	// reads in pages, so it may miss entries that are added or settled
	// meanwhile. Memory holds the sums and one page. Sums yields either all
	// sums or only an error.
	Sums(ctx context.Context, query Query) iter.Seq2[Sum, error]

	// SetCooldown sets a cooldown. If one is already in force, the later end
	// applies; one that was set with Cooldown.For counts as ending at most
	// For from now, in case the clock was ahead when it was set. While an
	// account moves, the cooldown of the Move, which ends at MoveUntil or
	// later, is in force. The account's own one, set before or meanwhile, is
	// kept under DisplacedBudget.
	SetCooldown(ctx context.Context, cooldown Cooldown) error

	// ClearCooldown clears the cooldown of a budget or, if budget is empty, of
	// the account. It is a no-op if there is none.
	ClearCooldown(ctx context.Context, account, budget string) error

	// Cooldowns returns the cooldowns of an account that are in force, its own
	// and those of all of its budgets, in no particular order.
	Cooldowns(ctx context.Context, account string) ([]Cooldown, error)

	// ClearLimits forgets the limits that were asked of an account's budgets.
	ClearLimits(ctx context.Context, account string) error

	// Accounts yields the accounts that have a log or a cooldown, in no
	// particular order, those that a Guard keeps for itself included; see
	// IsReserved. It may miss accounts that are added meanwhile. It stops after
	// yielding an error.
	Accounts(ctx context.Context) iter.Seq2[string, error]

	// Keys yields the keys of an account that have a log, in no particular
	// order. It may miss keys that are added or removed meanwhile. It stops
	// after yielding an error.
	Keys(ctx context.Context, account string) iter.Seq2[string, error]

	// Restamp gives each entry of a log that is ahead of the ledger's clock a
	// new timestamp, and returns how many entries it changed. The new
	// timestamps are not ahead, or by no more microseconds than there are such
	// entries, and keep the entries in order. Receipts of changed entries
	// become invalid: Settle is a no-op for them. With an empty key, Restamp
	// also shortens the account's cooldowns that were set with Cooldown.For, so
	// that none ends later than For from now. It is idempotent.
	Restamp(ctx context.Context, account, key string) (int, error)

	// Restore puts back what a log has lost, in one atomic step. It adds the
	// entries that are missing, by their ids, with their own timestamps, and
	// raises the units of those that were settled to less. Where the
	// restoration has several entries of one id, such as an addition, in the
	// order of their timestamps, the log gets as many of them. Restore records
	// for good what Heard, Lives and Gaps say, and adds notes for what others
	// have spent that the log lacks by these statements. The notes are computed
	// anew by each Restore, so that they shrink as other clients restore their
	// own entries. Restore is idempotent; it lowers nothing but these notes. A
	// log that was replaced by an older copy gets a new epoch
	// (Restoration.Lost). A log that has kept no entries adds those to its
	// counts that no life of it held (Life.Epoch); without History it stays as
	// it is.
	//
	// A note of Guard.AcceptLoss, in the log or in the restoration, ends what
	// is older (Entry.AcceptsLoss): no such entry is added, nor raised after
	// another loss, and no such statement counts.
	Restore(ctx context.Context, r *Restoration) (RestoreResult, error)

	// Close releases the resources of the ledger. Calls in flight may fail.
	// Later ones may return ErrLedgerClosed, and never ErrLedgerDown.
	Close() error
}

// Retention returns how long a log keeps an entry that a window can see for
// horizon: longer by an eighth of it, and by MaxStepBack at least.
func Retention(horizon time.Duration) time.Duration {
	return horizon + max(horizon/8, MaxStepBack)
}

// MaxSettle is the most entries that may be newer than one that is settled or
// refunded. It bounds the running totals that a ledger must rewrite while other
// spends wait.
const MaxSettle = 256

// Batch is a list of requests on one log, decided in one step.
type Batch struct {
	Account string
	Key     string

	// Client and Seq identify the requests: request i has the ID {Client,
	// Seq+i}. Client comes from NewClient, and Seq is greater than that of any
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

	// Known is an entry that the log is known to have held, with its Epoch; or
	// an Epoch alone, of a caller that was refused and found no entry; or zero.
	// If the log cannot hold the entry, or has another Epoch, Spend decides
	// nothing and returns a *ForgottenError.
	Known Receipt

	// Newest returns what Known would be by now; nil returns Known. Spend asks
	// it when it looks for the entry itself: others may have been granted more
	// since, and the ledger may have lost just that.
	Newest func() Receipt

	// Clock is the time on the caller's clock, or zero. If the ledger's clock
	// is more than MaxClockLead ahead of it, and of the log's newest timestamp,
	// Spend decides nothing and returns a *ClockError.
	Clock time.Time

	// Upstream returns the time by the latest answer of an account's upstream
	// that arrived after a time, or zero; it may be nil. A ledger asks it if it
	// doubts its own clock. It is safe for concurrent use.
	Upstream func(account string, since time.Time) time.Time

	Requests []Request
}

// MaxHistory is the longest Batch.History, and the longest window.
const MaxHistory = 400 * 24 * time.Hour

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
	// Calls is how many calls a note or a correction counts as, 0 to MaxUnits.
	// It is ignored for an EntryCall, which counts as one.
	Calls Units
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
	Window   Window

	// Beside is how far Limit is below the budget's, to leave room for calls
	// that follow. Another configuration's limit is reduced by it too.
	Beside Units

	// Floors reserve parts of Limit: the request must leave the part of each
	// floor that its coverage has not used yet in the window. For a budget with
	// floors, a Guard lists those of all regions but the caller's own. A
	// Counter window has none.
	Floors []Floor
	// FloorUntil ends the floors of a calendar window this long before
	// Day.Next, in whole microseconds; 0 keeps them until the end. Within the
	// margins around a boundary, a request must fit the ending window without
	// floors and the next window with all of its floors.
	FloorUntil time.Duration

	Config Config // where Limit is configured; if unknown, it holds whatever others ask

	// OwnLimit and LimitUntil are for ledgers: see Limited.
	OwnLimit   Units     // the caller's limit, if Limit is a lower one that another configuration asked; else 0
	LimitUntil time.Time // when that one ends
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
	Receipt Receipt // of a refused request: the log's Epoch, and its newest entry but for notes, perhaps of before the batch
	Held    []Held  // one for each charge, in order; may be empty for a repeated batch or without a ledger
	Err     error
}

// Held is what the window of one charge holds right after a grant.
type Held struct {
	Used    Units
	Kept    Units         // the part of the limit reserved by floors of other regions
	Limit   Units         // the limit that holds; 0 for the charge's own
	FreesIn time.Duration // from Receipt.At until the next units become free; 0 if none are used
}

// Check returns an ErrBadCall if the request is malformed, or a *NeverFitsError
// if it costs more than a limit. Ledgers call it before they decide a request.
func (r *Request) Check(account string) error {
	least := Units(1)
	if r.Force {
		least = 0
	}
	switch {
	case r.Units < least || r.Units > MaxUnits:
		return fmt.Errorf("%w: %q costs %d units; give %d to %d", ErrBadCall, r.Method, r.Units, least, MaxUnits)
	case max(len(r.Method), r.Caller.longest()) > MaxLabel:
		return fmt.Errorf("%w: a method, lane, job or region of more than %d bytes; shorten it", ErrBadCall, MaxLabel)
	case r.Kind != EntryCall && !(r.Force && r.Kind.isAdjustment()):
		return fmt.Errorf("%w: %q is a %s, not a call; force it, as a note or a correction", ErrBadCall, r.Method, r.Kind)
	case r.Calls < 0 || r.Calls > MaxUnits:
		return fmt.Errorf("%w: %q counts %d calls; give 0 to %d", ErrBadCall, r.Method, r.Calls, MaxUnits)
	case r.Force:
		return nil
	}
	for _, charge := range r.Charges {
		if needed, kept := charge.Coverage.Amount(r.Units), charge.always(); needed > charge.Limit-kept {
			return &NeverFitsError{Account: account, Budget: charge.Budget, Method: r.Method,
				Measure: charge.Coverage.Measure, Limit: charge.Limit, Kept: kept, Needed: needed,
				OwnLimit: charge.OwnLimit, LimitUntil: charge.LimitUntil}
		}
	}
	return nil
}

// MaxLabel is the most bytes in a method, lane, job or region.
const MaxLabel = 128

// MaxReason is the most bytes in the reason of a cooldown. Ledgers truncate
// longer ones.
const MaxReason = 200

// Check returns an ErrBadCall if the account, key or history is malformed.
func (b *Batch) Check() error {
	if b.Account == "" {
		return fmt.Errorf("%w: no account; name the upstream project whose quota it is", ErrBadCall)
	}
	if len(b.Account) > maxName || len(b.Key) > maxName {
		return fmt.Errorf("%w: an account or key of more than %d bytes; shorten it", ErrBadCall, maxName)
	}
	if b.History < 0 || b.History > MaxHistory || b.History%time.Microsecond != 0 {
		return fmt.Errorf("%w: a history of %s; give 0 to %s, in whole microseconds", ErrBadCall, b.History, MaxHistory)
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
