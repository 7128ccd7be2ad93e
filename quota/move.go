package quota

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/internal/textfmt"
)

// Move is an account on its way from one ledger to another, or past it: see
// package ledgercopy. Each of the two ledgers has it as a cooldown of the
// account without an end, so that it is decided in one atomic step with every
// call, by processes of every version.
type Move struct {
	Account  string
	Ledger   string // the address of the other ledger, without secrets
	Arriving bool   // the account moves to this ledger, which does not hold all of its log yet; else it has left
	ID       string // the same in both ledgers
}

// MoveUntil is the end of a Move's cooldown, as Unix time,
// 2200-01-01T00:00:00Z. The cooldown of an arriving account ends a second
// later; cooldowns that are not of a Move end earlier.
const MoveUntil = 7258118400

const (
	arrivedUntil = MoveUntil + 1

	leftWords, arrivingWords = "moved to ", "copied from "
	moveIDWords              = " (ration ledger copy "

	// arrivingRetry is when a call that meets an arriving account may
	// try again.
	arrivingRetry = 5 * time.Second
)

// DisplacedBudget names the cooldown in which a ledger keeps that of a whole
// account while a Move is in its place: see Ledger.SetCooldown.
const DisplacedBudget = reservedPrefix + "account"

// Cooldown returns the cooldown that closes the account.
func (m *Move) Cooldown() Cooldown {
	words, until := leftWords, int64(MoveUntil)
	if m.Arriving {
		words, until = arrivingWords, arrivedUntil
	}
	id := moveIDWords + m.ID + ")"
	return Cooldown{Account: m.Account, Until: time.Unix(until, 0).UTC(),
		Reason: words + shortened(m.Ledger, MaxReason-len(words)-len(id)) + id}
}

// shortened returns s, without its middle if it has more than most bytes.
func shortened(s string, most int) string {
	const gap = "…"
	if len(s) <= most {
		return s
	}
	head, tail := (most-len(gap))/2, len(s)-(most-len(gap))/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + gap + s[tail:]
}

// Move returns what the cooldown says of a Move. ok is false if it is any
// other cooldown.
func (c *Cooldown) Move() (m Move, ok bool) {
	if c == nil || c.Budget != "" || c.Until.Unix() < MoveUntil {
		return m, false
	}
	rest, left := strings.CutPrefix(c.Reason, leftWords)
	if !left {
		if rest, ok = strings.CutPrefix(c.Reason, arrivingWords); !ok {
			return m, false
		}
	}
	at := strings.LastIndex(rest, moveIDWords)
	if at < 0 || !strings.HasSuffix(rest, ")") {
		return m, false
	}
	return Move{Account: c.Account, Ledger: rest[:at], Arriving: !left, ID: rest[at+len(moveIDWords) : len(rest)-1]}, true
}

// Move returns the Move that refused a call. ok is false if it was
// anything else.
func (e *RefusedError) Move() (m Move, ok bool) {
	if e.Reason != ReasonCooldown {
		return m, false
	}
	return (&Cooldown{Account: e.Account, Budget: e.Budget, Until: e.RetryAt, Reason: e.Detail}).Move()
}

// MovedError says that an account has moved to another ledger. Nothing was
// decided. It is an ErrLedgerConfig.
type MovedError struct {
	Account string
	Ledger  string // the address of the new ledger, without secrets
}

// Error names the new ledger and says what to do.
func (e *MovedError) Error() string {
	return fmt.Sprintf("account %q has moved to the ledger %s; name that one, as ledger: in costs.yaml, in RATION_LEDGER or with --ledger", e.Account, textfmt.Printable(textfmt.Shorten(e.Ledger, MaxReason)))
}

// Unwrap returns ErrLedgerConfig.
func (e *MovedError) Unwrap() error { return ErrLedgerConfig }

// forMove returns e or, if a Move refused the call, what its caller must know:
// a *MovedError, or that the account arrives in a moment.
func (e *RefusedError) forMove() error {
	move, ok := e.Move()
	switch {
	case !ok:
		return e
	case !move.Arriving:
		return &MovedError{Account: e.Account, Ledger: move.Ledger}
	}
	soon := *e
	soon.RetryAt, soon.RetryAfter = e.RetryAt.Add(arrivingRetry-e.RetryAfter), arrivingRetry
	return &soon
}
