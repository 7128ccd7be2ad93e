package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Ledger keeps the logs of accounts and does nothing but append to them, on
// condition, and read them. It knows no budgets, windows, methods or costs:
// the processes that share it fold its records and decide. Implementations are
// safe for concurrent use. Package ledgertest tests what follows.
//
// A log is a list of batches, each with a position: the first batch of a log
// has position 1, and positions are consecutive. Its head holds its epoch, the
// newest position, the newest timestamp, the generation and MaxTotals totals.
// A log that does not exist has position 0 and epoch 0.
//
// Errors wrap ErrLedgerDown, ErrLedgerBusy, ErrLedgerClosed or ErrLedgerConfig
// if nothing was appended, and ErrInDoubt if that is not known. They are the
// context's error if the context ended before anything was sent.
type Ledger interface {
	// Append appends one batch to the log of an account, in one atomic step, if
	// all conditions of a hold. In either case it returns the batches after
	// a.After, as Read does, except for the batch that it has appended.
	Append(ctx context.Context, account string, a *Append) (*Tail, error)

	// Read returns the batches of a log after a position, oldest first, in
	// pages of about r.Bytes. It writes nothing.
	Read(ctx context.Context, account string, r *Read) (*Tail, error)

	// Accounts yields the accounts that have a log, in no particular order. It
	// may miss accounts that are added meanwhile. It stops after an error.
	Accounts(ctx context.Context) iter.Seq2[string, error]

	// Close releases the resources of the ledger. Calls in flight may fail;
	// later ones return ErrLedgerClosed.
	Close() error
}

// Known is what a caller knows of a log. The log has diverged from it, and
// nothing is appended, if its epoch is another one, if its newest position is
// less than After, or if the batch at position After begins with another tag.
// The tag is not compared if that batch has been trimmed.
type Known struct {
	Epoch uint64 // 0 of a caller that knows nothing of the log; After is then 0
	After uint64 // the newest position that the caller has received
	Tag   Tag    // of the batch at After
}

// Append is one conditional append.
type Append struct {
	Known

	// NewEpoch is the epoch of the log if this append creates it, which it does
	// if there is no log and Known.Epoch is 0. If there is a log and
	// Known.Epoch is 0, nothing is appended, and the log has not diverged.
	NewEpoch uint64

	Any        bool        // append whatever Gen and Conditions say, unless the log has diverged
	Gen        uint64      // the generation must be this one
	Conditions []Condition // about totals; all must hold
	NotBefore  int64       // the ledger's clock must be at this time or later; 0 is any time
	NotAfter   int64       // the ledger's clock must be at this time or earlier; 0 is any time

	Data  []byte  // the batch; it begins with its Tag. The ledger copies what it keeps.
	Count int     // how many timestamps it takes; 0 if none of its records needs one of its own
	Adds  []Total // what the totals rise by
	Bump  bool    // whether the generation rises by 1

	// Reset says that the newest timestamp was of a wrong clock: the batch's
	// timestamps begin at the ledger's clock, whatever the newest one is.
	Reset bool

	// Trim is the newest position that no reader needs any more. If the batch is
	// appended, batches up to it are dropped; 0 drops none.
	Trim uint64

	Bytes int // as in Read
}

// Read is one read of a log.
type Read struct {
	Known
	Bytes int // the size of a page: at least one batch, then as many as fit; 0 is DefaultPage
}

// DefaultPage is the size of a page of batches, in bytes.
const DefaultPage = 1 << 20

// MaxTotals is how many totals a head has, numbered from 0. A total only rises,
// and stays below 1<<53.
const MaxTotals = 128

// Total is an amount of one total.
type Total struct {
	Index  uint8 // less than MaxTotals
	Amount int64 // positive
}

// Condition bounds the sum of some totals. The bound is that of the last step
// whose From is not after the ledger's clock; the first step's From is 0. Each
// append is thereby refused if more than expected was appended since the caller
// last read the log.
type Condition struct {
	Totals []uint8
	Steps  []Step // by increasing From, at least one, at most MaxSteps
}

// Step is a bound from a time on.
type Step struct {
	From int64 // microseconds since the Unix epoch
	Most int64 // the sum may be at most this
}

// MaxSteps is the most steps in a Condition.
const MaxSteps = 32

// Tail is the answer to an Append or a Read.
type Tail struct {
	// Appended says that the batch was appended at Position, with timestamps
	// from At on.
	Appended bool
	At       int64

	// Diverged says that the log is not the one that the caller knows. Batches
	// is then empty; read it with a zero Known.
	Diverged bool

	Epoch    uint64 // 0 if there is no log
	Position uint64 // the newest position
	First    uint64 // the oldest position that the log still has; Position+1 if it has none
	Newest   int64  // the newest timestamp
	Gen      uint64
	Totals   [MaxTotals]int64 // after the append
	Now      int64            // the ledger's clock, in microseconds since the Unix epoch

	Batches []Batch // after Known.After; without the appended one
	More    bool    // there are more batches than fitted the page
}

// Batch is one element of a log.
type Batch struct {
	Position uint64
	At       int64 // the timestamp of its first record; the next one is a microsecond later
	Data     []byte
}

// TagSize is the size of a Tag.
const TagSize = 10

// Tag identifies a batch: the client (6 bytes) and the sequence number (4
// bytes) of its first record. Two batches of different content have different
// tags, but for chance.
type Tag [TagSize]byte

// Tag returns the tag that the batch begins with.
func (b *Batch) Tag() (tag Tag) {
	copy(tag[:], b.Data)
	return tag
}

func newTag(id ID) (tag Tag) {
	var client [8]byte
	binary.BigEndian.PutUint64(client[:], id.Client)
	copy(tag[:6], client[2:])
	binary.BigEndian.PutUint32(tag[6:], uint32(id.Seq))
	return tag
}

// Check returns an error if a is malformed. Ledgers call it first.
func (a *Append) Check(account string) error {
	switch {
	case account == "":
		return errors.New("append: no account")
	case len(a.Data) < TagSize || a.Count < 0:
		return fmt.Errorf("append: a batch of %d bytes and %d timestamps; it begins with its tag",
			len(a.Data), a.Count)
	case a.NewEpoch == 0:
		return errors.New("append: no epoch for a new log")
	}
	for _, add := range a.Adds {
		if add.Index >= MaxTotals || add.Amount < 0 {
			return fmt.Errorf("append: an amount of %d for total %d", add.Amount, add.Index)
		}
	}
	for _, c := range a.Conditions {
		if slices.ContainsFunc(c.Totals, func(i uint8) bool { return i >= MaxTotals }) {
			return fmt.Errorf("append: a condition about a total beyond %d", MaxTotals-1)
		}
		if len(c.Steps) == 0 || len(c.Steps) > MaxSteps || c.Steps[0].From != 0 {
			return fmt.Errorf("append: a condition of %d steps; the first has From 0, and there are at most %d",
				len(c.Steps), MaxSteps)
		}
	}
	return nil
}

// Holds reports whether the condition holds for totals at a time of the
// ledger's clock.
func (c *Condition) Holds(totals *[MaxTotals]int64, now int64) bool {
	var sum int64
	for _, i := range c.Totals {
		sum += totals[i]
	}
	most := c.Steps[0].Most
	for _, step := range c.Steps[1:] {
		if step.From > now {
			break
		}
		most = step.Most
	}
	return sum <= most
}

// The errors of ledgers; package quota exports them.
var (
	ErrInDoubt      = errors.New("quota: in doubt: the ledger's answer was lost, the call counts as spent")
	ErrLedgerDown   = errors.New("quota: ledger down")
	ErrLedgerBusy   = errors.New("quota: ledger busy")
	ErrLedgerClosed = errors.New("quota: ledger closed")
	ErrLedgerConfig = errors.New("quota: ledger misconfigured")
	ErrBadCall      = errors.New("quota: bad call")
)
