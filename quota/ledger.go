package quota

import (
	"context"
	"crypto/rand"
	"encoding/binary"
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
// The ledger's own clock is the authority. Stamps are whole microseconds and
// strictly increasing within a log: when the clock has not moved, or has
// stepped back, an entry is stamped one microsecond after the newest. A clock
// that steps back by up to two minutes frees nothing early.
//
// A ledger may have a method RealTime() bool that reports that no test's clock
// drives it; a Guard then remembers its refusals for a moment.
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
	// and of a higher one the difference becomes a new entry; told twice so
	// late, it may be added twice: rather too much than too little.
	Settle(ctx context.Context, receipt Receipt, units Units) error

	// Refund takes the entry of a call that was never sent out of all that counts:
	// no units, no call. It is declined with ErrStays as Settle is.
	Refund(ctx context.Context, receipt Receipt) error

	// Standings answers, for each charge, what its window holds now. It
	// writes nothing and creates nothing.
	Standings(ctx context.Context, account, key string, charges []*Charge) ([]Standing, error)

	// Entries yields the entries of one log that were stamped at or after
	// Since and before Until, oldest first, in pages, so that a long log never stops the
	// spending. An error ends it.
	Entries(ctx context.Context, query Query) iter.Seq2[Entry, error]

	// SetCooldown stops a budget, or with an empty Budget the account, until
	// an instant. A later Until replaces an earlier one, never the reverse.
	SetCooldown(ctx context.Context, cooldown Cooldown) error

	// ClearCooldown lifts what SetCooldown set.
	ClearCooldown(ctx context.Context, account, budget string) error

	// Close releases what the ledger holds. Calls in flight may fail.
	Close() error
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

	Requests []Request
}

// Request is one call as a ledger sees it.
type Request struct {
	Method  string
	Units   Units
	Caller  Caller
	Charges []*Charge // shared and read-only; none: granted, and recorded

	// Force records a call that has happened already, whatever limits and
	// cooldowns say. A forced request may cost 0 units.
	Force bool
	// NoCall is for a forced request that is no call: a correction of what is
	// used, or a note of an operator. Its entry counts its units, and no call,
	// and its receipt is not for Settle.
	NoCall bool
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

// Answer is the decision on one request: a Receipt when Err is nil.
type Answer struct {
	Receipt Receipt
	Err     error
}

// ID identifies one request: the client that made it, and a number that
// the client gives once.
type ID struct {
	Client uint64
	Seq    uint64
}

// String returns the id as logs show it.
func (id ID) String() string { return fmt.Sprintf("%012x-%d", id.Client, id.Seq) }

// NewClient returns a random client id of 48 bits, never 0.
func NewClient() uint64 {
	var b [8]byte
	for {
		rand.Read(b[2:]) // crypto/rand never fails since Go 1.24
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// Receipt identifies a recorded entry.
type Receipt struct {
	Account string
	Key     string
	ID      ID
	At      time.Time // the entry's stamp, unique in its log
}

// Standing is what one charge's window holds at one instant.
type Standing struct {
	At       time.Time // the ledger's clock
	Since    time.Time // entries stamped at or after this count (an estimate has none, and is zero)
	Used     Units
	NextFree time.Time // when the next units return; zero when nothing is used
	Cooldown *Cooldown // nil when none holds
}

// Query selects entries of one log.
type Query struct {
	Account string
	Key     string
	Since   time.Time // zero: from the oldest
	Until   time.Time // zero: to the newest
}

// Entry is one recorded spend.
type Entry struct {
	At     time.Time
	ID     ID
	Method string
	Caller Caller
	Units  Units
	Calls  Units // 1; 0 for a refunded call, for units added to an earlier one, and for what is no call
}

// Cooldown is the upstream's word to stop until an instant.
type Cooldown struct {
	Account string
	Budget  string // empty: the whole account
	Until   time.Time
	Reason  string // what the upstream said, at most 200 bytes are kept
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
	case r.NoCall && !r.Force:
		return fmt.Errorf("%w: %q is no call, and may be recorded only by force", ErrBadCall, r.Method)
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

// Check returns an ErrBadCall for a batch whose log cannot be named.
func (b *Batch) Check() error {
	if b.Account == "" {
		return fmt.Errorf("%w: no account; name the upstream project whose quota it is", ErrBadCall)
	}
	if len(b.Account) > maxName || len(b.Key) > maxName {
		return fmt.Errorf("%w: an account or key of more than %d bytes; shorten it", ErrBadCall, maxName)
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
