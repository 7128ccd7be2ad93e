package quota

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Restoration is what a client knows that a log has held: the entries of its
// own calls, and what answers said of everybody's. See Ledger.Restore.
type Restoration struct {
	Account string
	Key     string
	History time.Duration // as in Batch: how long the log must keep what is restored
	Clock   time.Time     // as in Batch: the time on the caller's clock, or zero
	Entries []Entry       // in any order, but entries with one id by timestamp
	Heard   []WindowUse   // what clients have heard of budgets
	Lives   []Life
	Gaps    []Gap // what earlier restorations returned

	// Lost says that the log has lost entries. If its epoch is that of a Life,
	// an older copy has taken its place, and it gets a new epoch: what clients
	// hear of it from now on does not count what is still missing.
	Lost bool

	// Known, if it is not zero, is as in Batch. If the log does not hold it,
	// entries have been lost, whatever Lost says.
	Known Receipt
}

// WindowUse says how much the window of a budget held at one time.
type WindowUse struct {
	Client   uint64    // the client that received the answer; its later WindowUse of the same budget replaces this one
	Budget   string    // the budget's name; after a NUL byte, what tells it from others of that name
	Coverage *Coverage // what the budget counts
	Since    time.Time // the timestamp of the oldest entry that the window could hold
	At       time.Time // the timestamp of the newest one: the grant whose answer said it
	Used     Units     // what the window held, with the units that Restoration.Entries says for these calls
	Epoch    uint64    // of the log; 0 if unknown, which implies that the log held every entry of the window
}

// Life records since when a log, in one epoch, has held what a client was
// granted: in that epoch, in an earlier one, or within an allowance. A
// WindowUse of that epoch from before Since lacks these entries, although it is
// later than they are.
type Life struct {
	Client uint64    // of the entries' ids, or of a WindowUse
	Seq    uint64    // of the first of the entries; the last is before the next Seq that is listed of the client
	Epoch  uint64    // of the log; 0 if the client knows of none that held them; no counter has counted them then
	Since  time.Time // a grant with this timestamp, or a later one, counted them
}

// Gap is the time of which an older copy of a log, used under the epoch of the
// log until it was restored, lacked the entries. A WindowUse of that epoch from
// To on, and before Until if it is set, lacks what was recorded after From and
// before To.
type Gap struct {
	Epoch    uint64
	From, To time.Time
	Until    time.Time // when the copy got another epoch; zero if it did not
}

// Note returns the method and caller of the note that stands for calls that are
// missing from the log. The budget covers it.
func (h *WindowUse) Note() (method string, caller Caller) {
	name, _, _ := strings.Cut(h.Budget, "\x00")
	method, caller = externalMethod(name), Caller{Lane: externalLane}
	if h.Coverage.Covers(method, caller) {
		return method, caller
	}
	if len(h.Coverage.Methods) > 0 {
		method = h.Coverage.Methods[0]
	}
	if len(h.Coverage.Lanes) > 0 {
		caller.Lane = h.Coverage.Lanes[0]
	}
	if len(h.Coverage.Regions) > 0 {
		caller.Region = h.Coverage.Regions[0]
	}
	return method, caller
}

// RestoreResult is what a restoration changed.
type RestoreResult struct {
	// Known is for Batch.Known. It has the log's epoch and identifies the newest
	// entry that was missing. If none was, it is Restoration.Known if the log
	// holds that, or else the newest entry of the restoration, or else it has
	// the timestamp of the log's newest entry.
	Known Receipt

	Since   time.Time // what has a later timestamp came to the log after Known
	Newest  time.Time // the log's newest timestamp: what was granted before has no later one
	Entries int       // entries of the restoration that were missing
	Units   Units     // the units of these
	Noted   Units     // the units of the notes about other clients' calls

	// GivenUp are the restored entries that the log lacks for good, since the
	// loss of them was accepted. An id without a Seq is a client of Heard that
	// stated something older.
	GivenUp []ID

	Gaps []Gap // of this log and those before it; give them to the next Restoration

	Forgotten *ForgottenError // if the log did not hold Restoration.Known
	Damaged   string          // where a file is kept that could not be read, if a new one took its place
}

// AcceptLoss declares the log of an account complete as it is, for a ledger
// that was emptied on purpose, or after restorations whose notes refuse too
// much. It removes these notes, and adds one of 0 units: for as long as a
// window of the account can see what is older, no host restores that. Units
// that the log lacks are free again, as are those that hosts have spent within
// their allowances and not yet charged back; the upstream still counts them.
// Logs of keys stay as they are.
func (g *Guard) AcceptLoss(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	keep := g.history[account]
	for _, charged := range g.accounts[account] {
		keep = max(keep, charged.charge.Window.Horizon())
	}
	// An entry that is ahead of the ledger's clock is stamped with its present
	// time. To ask for that first would have a journal restore what it owes.
	note := Entry{At: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), ID: ID{Client: NewClient(), Seq: 1}, Kind: EntryNote, Method: acceptLoss, Caller: Caller{Lane: LaneManual}}
	_, err := g.ledger.Restore(ctx, &Restoration{Account: account, History: min(keep, MaxHistory), Entries: []Entry{note}})
	return opError("accept the loss of "+account, err)
}

// Check returns an ErrBadCall if the restoration is malformed.
func (r *Restoration) Check() error {
	if err := (&Batch{Account: r.Account, Key: r.Key, History: r.History}).Check(); err != nil {
		return err
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		switch {
		case e.ID == ID{} || e.At.IsZero():
			return fmt.Errorf("%w: a restored entry of %q without an id or a timestamp", ErrBadCall, e.Method)
		case min(e.Units, e.Calls) < 0 || max(e.Units, e.Calls) > MaxUnits:
			return fmt.Errorf("%w: a restored entry of %q with %d units and %d calls; give 0 to %d", ErrBadCall, e.Method, e.Units, e.Calls, MaxUnits)
		case max(len(e.Method), e.Caller.longest()) > MaxLabel:
			return fmt.Errorf("%w: a restored entry with a method, lane, job or region of more than %d bytes", ErrBadCall, MaxLabel)
		}
	}
	for i := range r.Heard {
		h := &r.Heard[i]
		lacksField := h.Client == 0 || h.Coverage == nil || !h.Since.Before(h.At)
		if lacksField || h.Used < 0 || h.Used > MaxLimit {
			return fmt.Errorf("%w: a malformed statement about budget %q", ErrBadCall, h.Budget)
		}
	}
	for i := range r.Lives {
		if life := &r.Lives[i]; life.Client == 0 || life.Epoch != 0 && life.Since.IsZero() {
			return fmt.Errorf("%w: a malformed statement about the life %x of the log", ErrBadCall, life.Epoch)
		}
	}
	for i := range r.Gaps {
		if gap := &r.Gaps[i]; gap.Epoch == 0 || !gap.From.Before(gap.To) {
			return fmt.Errorf("%w: a malformed statement about a gap in the life %x of the log", ErrBadCall, gap.Epoch)
		}
	}
	return nil
}

// ForgottenError says that a log no longer holds an entry that the caller
// knows, or has another epoch than the caller knows: the log was deleted, or an
// older copy took its place. It is an ErrLedgerLost. Nothing was decided.
type ForgottenError struct {
	Account string
	Key     string
	Known   Receipt // the entry that is missing; of another log, perhaps only its Epoch
	Present Receipt // the log's epoch and the timestamp of its newest entry; zero where it has none
}

// Error says what is missing.
func (e *ForgottenError) Error() string {
	exactly := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") } // two entries of a second differ
	what := "its newest entry is of " + exactly(e.Present.At)
	if e.Present.At.IsZero() {
		what = "it is empty"
	}
	lost := "its entries"
	if !e.Known.At.IsZero() {
		lost = "the entry of " + exactly(e.Known.At)
	}
	return fmt.Sprintf("the log of account %q has lost %s: %s", e.Account, lost, what)
}

// Unwrap returns ErrLedgerLost.
func (e *ForgottenError) Unwrap() error { return ErrLedgerLost }

// CheckKnown returns a *ForgottenError if a log with an epoch and a newest
// timestamp cannot hold the entry that a batch knows.
func (b *Batch) CheckKnown(epoch uint64, newest time.Time) error {
	known := &b.Known
	lostLife := known.Epoch != 0 && known.Epoch != epoch
	lostTail := !known.At.IsZero() && known.At.After(newest)
	if !lostLife && !lostTail {
		return nil
	}
	return b.Forgotten(epoch, newest)
}

// NewestKnown returns Newest, or Known if that is nil.
func (b *Batch) NewestKnown() Receipt {
	if b.Newest == nil {
		return b.Known
	}
	return b.Newest()
}

// Forgotten returns the *ForgottenError of a batch.
func (b *Batch) Forgotten(epoch uint64, newest time.Time) error {
	e := &ForgottenError{Account: b.Account, Key: b.Key, Known: b.Known, Present: Receipt{Account: b.Account, Key: b.Key, Epoch: epoch, At: newest}}
	if newest.Unix() <= 0 {
		e.Present.At = time.Time{}
	}
	return e
}

// NewEpoch returns a random epoch, never 0.
func NewEpoch() uint64 { return NewClient() }
