package quota

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Ledger records spends and admits them. Every process that shares a quota
// must use the same one. Implementations are safe for concurrent use; the
// suite in package ledgertest holds each of them to what follows.
//
// A ledger keeps one log of all calls for each account, and for each
// (account, key) of a keyed call. A budget is a question asked of that log:
// which calls, since when, at most how many. Limits, windows and coverages
// travel with each request, so nothing about them need be set up, and a
// change holds at once over what is recorded. Every entry counts for every
// budget that covers it, whether or not the process that spent it knew of that
// budget. A coverage not seen before is answered from the log.
//
// A Counter window is answered from two counts and the start of their period,
// whatever the number of calls. A log that has only ever been asked Counter
// windows, and no History, keeps no entries: nothing but those counts. A
// coverage it has not seen before then starts at zero, and so does a window of
// another kind, from which on the log keeps entries. Such a log settles by
// what Receipt.Recorded says. It cannot look up an answer that was
// lost: a spend whose answer was lost is ErrInDoubt, and so is a lower Settle.
//
// A log keeps its entries for as long as the longest window in use can see
// them, or for Batch.History if that is longer, plus an eighth and at least two
// minutes (see Retention). A window is in use until no request has asked it for
// twice its horizon and for a day.
//
// The ledger's own clock is the authority. Stamps are whole microseconds and
// strictly increasing within a log: when the clock has not moved, or has
// stepped back, an entry is stamped one microsecond after the newest. A clock
// that steps back by up to MaxStepBack frees nothing early. Entries stamped
// further ahead of the clock than that count in every window until the clock
// reaches them; answers then say how far ahead the newest is (Ahead), and
// Restamp repairs it. No RetryAt is then later than now plus the longest window
// of the request's charges, or the end of a cooldown; while no stamp is further
// ahead than MaxStepBack it is exact, and may be later by that much.
//
// Errors of every method: ErrLedgerDown when nothing was done, ErrInDoubt when
// that is not known, ErrLedgerConfig when somebody must mend something,
// the context's own error when it ended first and nothing was done.
type Ledger interface {
	// Spend decides the requests of one batch, in order, in one atomic step;
	// each sees those admitted before it. A request is admitted when every
	// one of its charges fits and no cooldown holds it; then one entry is
	// recorded. Otherwise nothing of it is written. There is one Answer a
	// request: its Err is nil (granted), a *RefusedError, a *NeverFitsError,
	// or an ErrBadCall.
	//
	// A batch with an id that was granted before (Batch.Client is not 0) is
	// answered as it was then and not charged again; its refusals are decided
	// afresh. The ledger remembers the last batch of each client, for ten
	// minutes at least. A client sends its batches in the order of their Seq;
	// how an older one is answered is not laid down.
	//
	// An error instead of answers concerns the whole batch.
	Spend(ctx context.Context, batch *Batch) ([]Answer, error)

	// Settle changes the entry of a grant to what the call really cost, which may be
	// more than the limits allow. An entry that has left the log is left alone.
	// Beyond MaxSettle newer entries a lower cost is declined with ErrStays,
	// and of a higher one the difference becomes a new entry; a late retry may
	// add the difference twice. A log without entries changes its counts by the
	// difference to Receipt.Recorded.
	Settle(ctx context.Context, receipt Receipt, units Units) error

	// Refund takes the entry of a call that was never sent out of all that counts:
	// no units, no call. It is declined with ErrStays as Settle is.
	Refund(ctx context.Context, receipt Receipt) error

	// Standings answers, for each charge, what its window holds now. It
	// writes nothing and creates nothing.
	Standings(ctx context.Context, account, key string, charges []*Charge) ([]Standing, error)

	// Entries yields the entries of one log that were stamped at or after
	// Since and before Until, oldest first, or newest first with Newest. It
	// reads them in pages, so that a long log never stops the spending; the
	// first n cost what reading n costs, whatever the length of the log. An
	// error ends it.
	Entries(ctx context.Context, query Query) iter.Seq2[Entry, error]

	// Sums yields what the entries that Entries would yield add up to: one Sum
	// for each kind, method and caller among them, and with PerClient for each
	// client too, in no order. A log that keeps no entries has none. It reads
	// in pages as Entries does, so entries that are added or settled meanwhile
	// may be missed, and holds no more in memory than the sums and a page. It
	// yields every sum, or an error alone.
	Sums(ctx context.Context, query Query) iter.Seq2[Sum, error]

	// SetCooldown stops a budget, or with an empty Budget the account, for a
	// time counted from the ledger's now (For), or until a time on its clock
	// (Until). A later end replaces an earlier one, never the reverse.
	SetCooldown(ctx context.Context, cooldown Cooldown) error

	// ClearCooldown lifts what SetCooldown set.
	ClearCooldown(ctx context.Context, account, budget string) error

	// Keys yields the keys that have a log in an account, in no order. Keys
	// added or dropped meanwhile may be missed. An error ends it.
	Keys(ctx context.Context, account string) iter.Seq2[string, error]

	// Restamp gives every entry of one log that is stamped ahead of the
	// ledger's clock a stamp that is not, or is ahead by no more microseconds
	// than there are such entries, and returns how many it changed. Their order
	// stays. A receipt of a restamped entry no longer finds it, so that its
	// Settle is a no-op. With an empty key it also shortens the account's
	// cooldowns: one that was set for a time (Cooldown.For) ends no later than
	// that long from now. It is idempotent.
	Restamp(ctx context.Context, account, key string) (int, error)

	// Close releases what the ledger holds. Calls in flight may fail.
	Close() error
}

// RealTimeLedger is a Ledger that knows whether its clock is real. A Guard
// remembers refusals for up to a second if its ledger is on real time. A
// decorator implements it by calling the function RealTime on the ledger that
// it wraps.
type RealTimeLedger interface {
	Ledger
	// RealTime reports whether the ledger reads a real clock, not a test's.
	RealTime() bool
}

// RealTime reports whether l is a RealTimeLedger on real time.
func RealTime(l Ledger) bool {
	real, ok := l.(RealTimeLedger)
	return ok && real.RealTime()
}

// MaxStepBack is how far the ledger's clock may step back without freeing
// anything early, and how far stamps may be ahead of it without a word.
const MaxStepBack = 2 * time.Minute

// Retention returns how long a log keeps an entry that matters to a window for
// horizon: an eighth longer, and at least MaxStepBack.
func Retention(horizon time.Duration) time.Duration {
	return horizon + max(horizon/8, MaxStepBack)
}

// MaxSettle is how many entries may be newer than one that is settled or
// refunded in place: running totals behind it are rewritten, and a ledger that
// others wait for bounds that work.
const MaxSettle = 256

// Batch is one or more requests on one log, decided in one step.
type Batch struct {
	Account string
	Key     string

	// Client and Seq identify the batch: request i has the id (Client, Seq+i).
	// A Client of 0 leaves the naming to the ledger; such a batch must not
	// be sent twice. Client ids come from NewClient; the Seq of a later batch is greater
	// than the ids of all before it.
	Client uint64
	Seq    uint64

	// History is how long the log keeps its entries at least, whatever the
	// windows, so that they can be listed. 0 asks for no more than the windows
	// need; it is at most MaxHistory.
	History time.Duration

	Requests []Request
}

// MaxHistory is the longest Batch.History.
const MaxHistory = 400 * 24 * time.Hour

// Request is one call as a ledger sees it.
type Request struct {
	Method  string
	Units   Units
	Caller  Caller
	Charges []*Charge // shared and read-only; none: granted, and recorded

	// Force records a call that has happened already, whatever limits and
	// cooldowns say. A forced request may cost 0 units.
	Force bool

	// Kind is EntryCall, EntryNote or EntryCorrection; the latter two must be
	// forced. Their entry counts Units, and Calls calls (0 to MaxUnits), and
	// their receipt is not for Settle. Calls is not read for an EntryCall, which
	// counts one.
	Kind  EntryKind
	Calls Units
}

// Count returns how many calls the request counts.
func (r *Request) Count() Units {
	if r.Kind == EntryCall {
		return 1
	}
	return r.Calls
}

// Charge is a budget as a ledger sees it: a question about the log.
type Charge struct {
	Budget   string // its name, for refusals and cooldowns
	Coverage *Coverage
	Limit    Units
	Window   Window

	// Floors is what is kept for others: the amount must fit into
	// Limit less what each coverage, a part of the charge's, has not used yet of
	// its floor in the same window. NewGuard makes them from a Budget's, without
	// the floor of the caller's own region. A counter window has none.
	Floors []Floor
	// FloorUntil is, on a calendar window, how long before Day.Next the floors
	// of the day end, in whole microseconds; 0 keeps them to the end. Within
	// the margins around a boundary a call must then fit the day that ends
	// without its floors, and the day that begins with all of its own.
	FloorUntil time.Duration
}

// Floor is what is kept for the calls of a coverage, in what the charge counts.
type Floor struct {
	Coverage *Coverage
	Units    Units // 1 to the limit
}

// always returns what of the limit is kept even when nothing is used: what
// others use of their floors leaves no more for the rest.
func (c *Charge) always() (kept Units) {
	if c.FloorUntil == 0 {
		for _, floor := range c.Floors {
			kept += floor.Units
		}
	}
	return kept
}

// Answer is the decision on one request: a Receipt when Err is nil, and how
// each of its charges stands after it, in their order.
type Answer struct {
	Receipt Receipt
	Held    []Held
	Err     error
}

// Held is what the window of one charge holds right after a grant, read in the
// step that granted it. A batch that was decided before (see Spend), or was
// granted without the ledger, may have none.
type Held struct {
	Used    Units
	Kept    Units         // of the limit, for floors of other regions
	FreesIn time.Duration // from Receipt.At until the next units return; 0 when nothing is used
}

// Check returns an ErrBadCall for a request that no ledger may record, a
// *NeverFitsError for one that costs more than a limit, and nil otherwise.
// Ledgers call it for each request before they decide.
func (r *Request) Check(account string) error {
	least := Units(1)
	if r.Force {
		least = 0
	}
	switch {
	case r.Units < least || r.Units > MaxUnits:
		return fmt.Errorf("%w: %q costs %d units; give %d to %d", ErrBadCall, r.Method, r.Units, least, MaxUnits)
	case len(r.Method) > MaxLabel || len(r.Caller.Lane) > MaxLabel || len(r.Caller.Job) > MaxLabel || len(r.Caller.Region) > MaxLabel:
		return fmt.Errorf("%w: a method, lane, job or region of more than %d bytes; shorten it", ErrBadCall, MaxLabel)
	case r.Kind != EntryCall && (!r.Force || r.Kind != EntryNote && r.Kind != EntryCorrection):
		return fmt.Errorf("%w: %q is a %s, not a call; force it, as a note or a correction", ErrBadCall, r.Method, r.Kind)
	case r.Calls < 0 || r.Calls > MaxUnits:
		return fmt.Errorf("%w: %q counts %d calls; give 0 to %d", ErrBadCall, r.Method, r.Calls, MaxUnits)
	case r.Force:
		return nil
	}
	for _, charge := range r.Charges {
		if needed, kept := charge.Coverage.Amount(r.Units), charge.always(); needed > charge.Limit-kept {
			return &NeverFitsError{Account: account, Budget: charge.Budget, Method: r.Method,
				Measure: charge.Coverage.Measure, Limit: charge.Limit, Kept: kept, Needed: needed}
		}
	}
	return nil
}

// MaxLabel bounds a method, lane, job or region, in bytes.
const MaxLabel = 128

// MaxReason bounds the reason of a cooldown, in bytes. Ledgers truncate longer
// ones.
const MaxReason = 200

// MaxClockSkew is the largest difference between the clocks of a ledger and its
// hosts that needs no warning.
const MaxClockSkew = time.Minute

// Check returns an ErrBadCall for a batch whose log cannot be named.
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

// opError adds the operation to an error, once.
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, err)
}
