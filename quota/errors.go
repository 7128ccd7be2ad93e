package quota

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrRefused is every *RefusedError: a budget is spent, or a cooldown
	// holds. The call may be made later.
	ErrRefused = errors.New("quota: refused")
	// ErrNeverFits is every *NeverFitsError: the call costs more than a whole
	// limit. Waiting does not help; it is not an ErrRefused.
	ErrNeverFits = errors.New("quota: never fits")
	// ErrInDoubt means that the ledger's answer was lost. The call counts as
	// spent, and must not be made.
	ErrInDoubt = errors.New("quota: in doubt: the ledger's answer was lost, the call counts as spent")
	// ErrLedgerDown means that the ledger could not be asked. Nothing was spent.
	ErrLedgerDown = errors.New("quota: ledger down")
	// ErrLedgerConfig means that the ledger refuses to serve until somebody
	// mends its configuration: a wrong password, a file that is not a
	// ledger, a folder without permission. It is not an ErrLedgerDown.
	ErrLedgerConfig = errors.New("quota: ledger misconfigured")
	// ErrLedgerLost means that the ledger has forgotten spends that it once held.
	ErrLedgerLost = errors.New("quota: ledger lost entries")
	// ErrUnguarded is returned by a pricer for a request to a host that it
	// does not guard. Transport passes such a request through.
	ErrUnguarded = errors.New("quota: not a guarded host")
	// ErrPaid is returned by a pricer for a request that belongs to a call
	// charged before: a further chunk of a resumable upload. Transport passes
	// it through.
	ErrPaid = errors.New("quota: charged with an earlier request")
	// ErrRedirect means that a request was not sent because it follows a
	// redirect to where it must not go: to a host that is not guarded, or from
	// https to http.
	ErrRedirect = errors.New("quota: redirect refused")
	// ErrGuardedTwice means that a request was not sent because Transports are
	// chained so that it would be charged twice.
	ErrGuardedTwice = errors.New("quota: guarded twice")
	// ErrBadCall means that a call cannot be charged as it is: no account, no
	// units, too many, or a name that is too long.
	ErrBadCall = errors.New("quota: bad call")
	// ErrCorrecting is returned by Guard.Correct when another process corrects the
	// same account. A moment later it is done.
	ErrCorrecting = errors.New("quota: another process is correcting this account's log; try again in a moment")
	// ErrStays is returned by Grant.Settle and Grant.Refund when the units stay
	// charged: too many calls were recorded since (see Ledger.Settle).
	ErrStays = errors.New("quota: too late to lower, the units stay charged")
)

// Reason says why a call was refused.
type Reason string

const (
	// ReasonSpent means that a budget cannot pay.
	ReasonSpent Reason = "spent"
	// ReasonCooldown means that the upstream said stop.
	ReasonCooldown Reason = "cooldown"
	// ReasonQueue means that a call of this process that came first waits for
	// the same budget.
	ReasonQueue Reason = "queue"
)

// RefusedError says which budget refused a call, how short it was and when to
// come back. A refused call was not charged and must not be made. Of several
// budgets it names the one that frees last.
type RefusedError struct {
	Account string
	Key     string
	Budget  string // empty: a cooldown of the whole account
	Method  string
	Units   Units  // what the call costs
	Caller  Caller // on whose behalf it was
	Reason  Reason
	Detail  string // what the upstream said, for a cooldown

	Measure   Measure
	Limit     Units
	Used      Units // what the window holds, which may exceed Limit; 0 for ReasonQueue and a cooldown of the account
	Remaining Units // for this call, never negative: what is kept for others is not
	Kept      Units // of the limit, for the floors of other regions
	Needed    Units

	// RetryAt is the first instant, on the ledger's clock, at which this call
	// would be admitted if nobody else spent; others may, so it is a lower
	// bound. RetryAfter is the same from the moment of the refusal.
	// It is never later than now plus the budget's window, or a cooldown's end.
	RetryAt    time.Time
	RetryAfter time.Duration

	// Ahead is how far the newest entry of the log is stamped ahead of the
	// ledger's clock, when by more than MaxStepBack, else 0: the clock was once
	// wrong, and RetryAt does not hold until the log is restamped.
	Ahead time.Duration
}

// Error returns what Short does, and when to come back.
func (e *RefusedError) Error() string {
	when := fmt.Sprintf("%s (in %s)", stamp(e.RetryAt), inWords(e.RetryAfter))
	switch {
	case e.Reason == ReasonCooldown:
		when = "go on at " + when
	case e.Reason == ReasonQueue:
		when = "try again at " + when
	case e.Ahead > 0:
		when = fmt.Sprintf("its newest entry is stamped %s ahead of the ledger's clock; correct the clock, then: ration ledger restamp", inWords(e.Ahead))
	default:
		when = "more at " + when
	}
	return e.Short() + "; " + when
}

// Short names the budget, what is left and what is needed, or what else holds
// the call: Error without the time at which to come back.
func (e *RefusedError) Short() string {
	switch e.Reason {
	case ReasonCooldown:
		detail := ""
		if e.Detail != "" {
			detail = fmt.Sprintf(" (%s)", printable(e.Detail))
		}
		return fmt.Sprintf("%s is in cooldown%s, %s must wait", cmp.Or(e.Budget, e.Account), detail, e.Method)
	case ReasonQueue:
		return fmt.Sprintf("another call of this process waits for %s, %s must wait its turn", e.Budget, e.Method)
	}
	kept := ""
	if e.Kept > 0 {
		kept = fmt.Sprintf(" (%d kept for other regions)", e.Kept)
	}
	measure := e.Measure.String()
	if e.Limit == 1 {
		measure = strings.TrimSuffix(measure, "s")
	}
	return fmt.Sprintf("%s has %d of %d %s left%s, %s needs %d", e.Budget, e.Remaining, e.Limit, measure, kept, e.Method, e.Needed)
}

// Is reports that every RefusedError is ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// NeverFitsError says which limit a call exceeds all by itself.
type NeverFitsError struct {
	Account string
	Budget  string
	Method  string
	Measure Measure
	Limit   Units
	Kept    Units // of the limit, always, for the floors of other regions
	Needed  Units
}

// Error names the limit and the cost.
func (e *NeverFitsError) Error() string {
	if e.Kept > 0 {
		return fmt.Sprintf("%s allows %d %s and keeps %d of them for other regions, %s needs %d and never fits; lower its cost or the floors, or raise the limit",
			e.Budget, e.Limit, e.Measure, e.Kept, e.Method, e.Needed)
	}
	return fmt.Sprintf("%s allows %d %s, %s needs %d and never fits; lower its cost or raise the limit",
		e.Budget, e.Limit, e.Measure, e.Method, e.Needed)
}

// Is reports that every NeverFitsError is ErrNeverFits.
func (e *NeverFitsError) Is(target error) bool { return target == ErrNeverFits }

// MaxUnix is the last instant that RFC 3339 and JSON can write, in seconds
// since 1970: 9999-12-31T23:59:59Z. No cooldown ends later.
const MaxUnix = 253402300799

// stamp writes a time in RFC 3339 and UTC, rounded up to a second, so that a
// caller that comes back then is not early. MaxUnix is the latest it writes. Like
// inWords it is what package human of costs does, which this package cannot
// import.
func stamp(t time.Time) string {
	t = time.Unix(min(t.Add(time.Second-1).Unix(), MaxUnix), 0)
	return t.UTC().Format(time.RFC3339)
}

// far is a duration that is not counted any more: the difference of two times is
// never more than 292 years, however far apart they are.
const far = 290 * 365 * 24 * time.Hour

// inWords writes a duration rounded up: 250ms, 12s, 3m5s, 3h12m.
func inWords(d time.Duration) string {
	unit := time.Second
	switch {
	case d >= far:
		return "290 years or more"
	case d <= 0:
		return "0s"
	case d < time.Second:
		unit = time.Millisecond
	case d > time.Hour:
		unit = time.Minute
	}
	return shortDuration((d + unit - 1).Truncate(unit))
}

// printable returns text from outside fit for a terminal: control characters
// and direction marks escaped, at most 200 bytes.
func printable(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	quoted := fmt.Sprintf("%q", s)
	return quoted[1 : len(quoted)-1]
}
