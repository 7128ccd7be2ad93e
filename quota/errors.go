package quota

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

var (
	// ErrRefused matches every *RefusedError: a budget is spent, or a cooldown
	// is in force. The same call may be admitted later.
	ErrRefused = errors.New("quota: refused")
	// ErrNeverFits matches every *NeverFitsError: the call costs more than a
	// whole limit, so waiting does not help. It is not an ErrRefused.
	ErrNeverFits = errors.New("quota: never fits")
	// ErrInDoubt means that the ledger's answer was lost. The call counts as
	// spent and must not be made.
	ErrInDoubt = engine.ErrInDoubt
	// ErrLedgerDown means that the ledger could not be reached. Nothing
	// was spent.
	ErrLedgerDown = engine.ErrLedgerDown
	// ErrLedgerBusy means that the ledger is up, and that other callers used it
	// for as long as this one could wait, or that another program keeps it
	// locked. Nothing was spent; try again later. It is not an ErrLedgerDown.
	ErrLedgerBusy = engine.ErrLedgerBusy
	// ErrLedgerClosed means that this process has closed the ledger. Nothing was
	// spent. It is not an ErrLedgerDown.
	ErrLedgerClosed = engine.ErrLedgerClosed
	// ErrLedgerConfig means that the ledger cannot serve until its
	// configuration is corrected: a wrong password, a file that is not a
	// ledger, a missing permission. It is not an ErrLedgerDown.
	ErrLedgerConfig = engine.ErrLedgerConfig
	// ErrLedgerLost means that a ledger lost records while they were copied
	// from it or to it. A Guard does not return it: it restores what a ledger
	// lacks.
	ErrLedgerLost = errors.New("quota: ledger lost records")
	// ErrUnguarded is returned by Transport.Price for a request to a host that
	// is not guarded. Transport sends such a request without charging it.
	ErrUnguarded = errors.New("quota: not a guarded host")
	// ErrPaid is returned by Transport.Price for a request that belongs to a
	// call that was already charged, such as a later chunk of a resumable
	// upload. Transport sends such a request without charging it.
	ErrPaid = errors.New("quota: charged with an earlier request")
	// ErrRedirect means that a request was not sent because it follows a
	// redirect to a host that is not guarded, or from https to http.
	ErrRedirect = errors.New("quota: redirect refused")
	// ErrGuardedTwice means that a request was not sent because it passes two
	// Transports that would both charge it.
	ErrGuardedTwice = errors.New("quota: guarded twice")
	// ErrBadCall means that a call is malformed: it has no account, a cost out
	// of range, or a name that is too long.
	ErrBadCall = engine.ErrBadCall
	// ErrCorrecting is returned by Guard.Correct while another process corrects
	// the log of the same account. Try again a few seconds later.
	ErrCorrecting = errors.New("quota: another process is correcting this account's log; try again in a moment")
	// ErrReused means that Call.ID, or the name it stands for, was used for
	// another call before, which was granted. The call was not charged and must
	// not be made.
	ErrReused = errors.New("quota: this id was used for another call; give each call its own")
	// ErrBadToken means that a text is not a token of a grant; see Guard.Redeem.
	ErrBadToken = errors.New("quota: not a grant; take the text that the grant came with")
	// ErrClaimed means that another process has a pass, or something else that
	// one process does at a time.
	ErrClaimed = engine.ErrClaimed
	// ErrClaimLost means that the claim of this process lapsed, or that the
	// ledger has lost it. Another process may hold it.
	ErrClaimLost = engine.ErrClaimLost
)

// Reason says why a call was refused.
type Reason string

const (
	// ReasonSpent means that a budget has too little left.
	ReasonSpent Reason = "spent"
	// ReasonCooldown means that a cooldown is in force.
	ReasonCooldown Reason = "cooldown"
	// ReasonInFlight means that a budget has room once calls that are in flight
	// end, or are settled to less than was reserved for them: soon, by all
	// likelihood. RetryAt is when to look again.
	ReasonInFlight Reason = "in_flight"
	// ReasonQueue means that an earlier call of this process waits for the same
	// budget; see Guard.Wait.
	ReasonQueue Reason = "queue"
	// ReasonShare means that this run has taken its share of a budget; see
	// Options.MaxShare. Waiting does not help it: another run may go on.
	ReasonShare Reason = "share"
	// ReasonPace means that the call's lane is paced, and that its time has not
	// come: see Options.Paced.
	ReasonPace Reason = "pace"
)

// RefusedError says why a call was refused and when to try again. If several
// budgets refuse a call, it names the one with the latest RetryAt. A refused
// call was not charged and must not be made.
type RefusedError struct {
	Account string
	Key     string // as in Call
	Budget  string // empty for a cooldown of the whole account
	OfKey   bool   // the limit, or the cooldown, is that of Key alone
	Method  string
	Units   Units // the cost of the call
	Caller  Caller
	Reason  Reason
	Detail  string // the reason of a cooldown, as set with it, or how large a share is

	Measure   Measure // what the numbers below count
	Limit     Units   // the budget's limit; 0 for a cooldown of the account, or if the ledger could not say
	Used      Units   // what the window holds, which may exceed Limit; 0 if IsOfProcess, and if Limit is 0
	Remaining Units   // what this call could have used, without Kept; never negative
	Kept      Units   // the part of Limit reserved by the floors of other regions
	Needed    Units   // what the call would have used
	Open      Units   // the part of Used that calls in flight may give back: see Call.Lease
	Waiting   Units   // what calls that came before this one wait for

	// ConfiguredLimit is the limit that the caller asked, if Limit is a lower one
	// that another configuration asked within a day, and 0 otherwise.
	// LimitUntil is when that one ends if it is not asked again, or
	// Guard.AcceptLimits forgets it.
	ConfiguredLimit Units
	LimitUntil      time.Time

	// RetryAt is the earliest time, on the ledger's clock, at which the call
	// could be admitted: exact if nothing else is spent, otherwise a lower
	// bound. It is at most one window away, or the end of the cooldown; floors
	// with FloorUntil can add a day.
	RetryAt time.Time
	// RetryAfter is how long RetryAt was away at the time of the refusal.
	RetryAfter time.Duration

	// Ahead is how far the timestamp of the log's newest entry is ahead of
	// the ledger's clock, or 0 if that is at most two minutes. If it is
	// not 0, the clock was wrong at some time and RetryAt is not reliable.
	Ahead time.Duration

	moved *MovedError // what refuses the call, if it is not a budget or a cooldown
}

// newRefusal returns the refusal of a call that needs units of a budget.
func newRefusal(call *Call, budget string, reason Reason) *RefusedError {
	return &RefusedError{Account: call.Account, Key: call.Key, Budget: budget, Method: call.Method,
		Units: call.Units, Needed: call.Units, Caller: call.Caller, Reason: reason}
}

// Error returns the text of Short and says when to try again.
func (e *RefusedError) Error() string {
	if e.Reason == ReasonShare {
		return e.Short() + "; the next run may take as large a share of what is left then"
	}
	when := fmt.Sprintf("; try again at %s (in %s)", human.Time(e.RetryAt), human.Duration(e.RetryAfter))
	wrong := stampedAhead(e.Ahead)
	switch {
	case e.Ahead <= 0 || e.Reason == ReasonQueue:
		return e.Short() + when
	case e.Reason == ReasonCooldown: // which may be right all the same
		return e.Short() + when + wrong
	}
	return e.Short() + wrong
}

// stampedAhead is what to do about a log whose newest timestamp is ahead.
func stampedAhead(ahead time.Duration) string {
	return fmt.Sprintf("; its newest entry is stamped %s ahead of the ledger's clock; correct the clock; the next "+
		"call then corrects the timestamps", human.Duration(ahead))
}

// Short says why the call was refused, without the time at which to try again.
func (e *RefusedError) Short() string {
	switch e.Reason {
	case ReasonCooldown:
		detail := ""
		if e.Detail != "" {
			detail = fmt.Sprintf(" (%s)", human.Printable(human.Shorten(e.Detail, MaxReason)))
		}
		return fmt.Sprintf("%s is in cooldown%s, %s must wait", cmp.Or(e.Budget, e.Account)+keyText(e.ownKey()), detail,
			e.Method)
	case ReasonShare:
		return fmt.Sprintf("this run has %s left of its share of %s (%s), %s needs %s",
			e.Measure.Number(e.Remaining), e.Budget+keyText(e.ownKey()), e.Detail, e.Method, e.Measure.Number(e.Needed))
	case ReasonPace:
		return fmt.Sprintf("lane %s is paced, %s of %s must wait its turn", e.Caller.Lane, e.Method, e.Budget)
	case ReasonQueue:
		return fmt.Sprintf("another call of this process waits for %s, %s must wait its turn",
			e.Budget+keyText(e.ownKey()), e.Method)
	}
	reserved, number := "", e.Measure.Number
	if e.Kept > 0 {
		reserved = fmt.Sprintf(" (%s reserved for other regions)", number(e.Kept))
	}
	if e.Waiting > 0 {
		reserved += fmt.Sprintf(" (%s for calls that wait)", number(e.Waiting))
	}
	if e.Reason == ReasonInFlight {
		reserved += fmt.Sprintf(" (%s in flight)", number(e.Open))
	}
	measure := e.Measure.String()
	if isCounted := e.Measure == Calls || e.Measure == ByUnits; isCounted && e.Limit == 1 {
		measure = strings.TrimSuffix(measure, "s")
	}
	return human.UnitsLeft(e.Budget+keyText(e.ownKey()), number(e.Remaining), number(e.Limit)+" "+measure, reserved,
		e.Method, number(e.Needed)) +
		limitNote(e.Measure, e.Limit, e.ConfiguredLimit, e.LimitUntil)
}

// IsOfProcess reports whether this process itself refused the call, so that
// what the budget holds is not known.
func (e *RefusedError) IsOfProcess() bool {
	return e.Reason == ReasonQueue || e.Reason == ReasonShare || e.Reason == ReasonPace
}

// ownKey returns the key that is refused alone, or "".
func (e *RefusedError) ownKey() string {
	if e.OfKey {
		return e.Key
	}
	return ""
}

// keyText names a key after what it is a part of.
func keyText(key string) string {
	if key == "" {
		return ""
	}
	return " of key " + human.Printable(human.Shorten(key, 64))
}

// Is reports whether target is ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// NeverFitsError says that a call costs more than a budget's whole limit, so
// that it can never be admitted.
type NeverFitsError struct {
	Account string
	Key     string // whose limit it is; empty for one of all keys
	Budget  string
	Method  string
	Measure Measure // what the numbers below count
	Limit   Units
	Kept    Units // the part of Limit always reserved by the floors of other regions
	Needed  Units // what the call, or all Calls together, would use
	Calls   int   // how many calls SpendTogether was asked for; 0 for one

	ConfiguredLimit Units // as in RefusedError
	LimitUntil      time.Time
}

// Error returns the text of Short and says what to change.
func (e *NeverFitsError) Error() string {
	together := e.MostTogether()
	switch {
	case e.ConfiguredLimit > 0:
		return e.Short()
	case together > 0:
		return fmt.Sprintf("%s; spend at most %d at once", e.Short(), together)
	case e.Kept > 0:
		return e.Short() + "; lower its cost or the floors, or raise the limit"
	}
	return e.Short() + "; lower its cost or raise the limit"
}

// MostTogether returns how many of several calls fit at once. It is 0 if not
// even one of them does, or if one call was asked for.
func (e *NeverFitsError) MostTogether() int {
	if e.Calls < 2 {
		return 0
	}
	each := e.Needed / Units(e.Calls)
	return int((e.Limit - e.Kept) / max(each, 1))
}

// Short names the budget, its limit and the cost.
func (e *NeverFitsError) Short() string {
	kept := ""
	if e.Kept > 0 {
		kept = fmt.Sprintf(" and keeps %s of them for other regions", e.Measure.Number(e.Kept))
	}
	needs, verdict := e.Method+" needs", "never fits"
	several, isLimited := e.Calls > 1, e.ConfiguredLimit > 0
	if several {
		needs = fmt.Sprintf("%d calls of %s need", e.Calls, e.Method)
	}
	switch {
	case several && isLimited:
		verdict = "do not fit together"
	case several:
		verdict = "never fit together"
	case isLimited:
		verdict = "does not fit"
	}
	return fmt.Sprintf("%s allows %s %s%s, %s %s and %s",
		e.Budget+keyText(e.Key), e.Measure.Number(e.Limit), e.Measure, kept, needs, e.Measure.Number(e.Needed),
		verdict) +
		limitNote(e.Measure, e.Limit, e.ConfiguredLimit, e.LimitUntil)
}

// Is reports whether target is ErrNeverFits.
func (e *NeverFitsError) Is(target error) bool { return target == ErrNeverFits }
