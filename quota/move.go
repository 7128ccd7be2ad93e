package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// Move is an account on its way from one ledger to another, or past it: see
// `ration ledger copy`. Calls are refused in a ledger whose log says so.
type Move struct {
	Account  string
	Ledger   string // the address of the other ledger, without secrets
	Arriving bool   // this ledger does not hold all of its log yet; else the account has left it
}

// String says where the account is, or where it comes from.
func (m *Move) String() string {
	if m.Arriving {
		return "copied from " + m.Ledger
	}
	return "moved to " + m.Ledger
}

// moveOf returns the Move that a moved record says, or nil if the account is
// in use.
func moveOf(account string, moved *engine.Record) *Move {
	if moved.Text == "" {
		return nil
	}
	return &Move{Account: account, Ledger: moved.Text, Arriving: moved.Name == engine.Arriving}
}

// arrivingRetry is when a call that meets an arriving account may try again.
const arrivingRetry = 5 * time.Second

// refusal returns the refusal of a call that the Move refuses at a time.
func (m *Move) refusal(call *Call, at time.Time) *RefusedError {
	e := newRefusal(call, "", ReasonCooldown)
	e.Detail = m.String()
	e.RetryAt = at.Add(arrivingRetry)
	e.RetryAfter = arrivingRetry
	e.move = m
	return e
}

// orError returns a refusal by the Move, or a *MovedError if waiting does not
// help because the account has left.
func (m *Move) orError(refused *RefusedError) error {
	if m.Arriving {
		return refused
	}
	return &MovedError{Account: m.Account, Ledger: m.Ledger}
}

// Move returns the Move that refused a call. ok is false if it was
// anything else.
func (e *RefusedError) Move() (m Move, ok bool) {
	if e.move == nil {
		return m, false
	}
	return *e.move, true
}

// MovedError says that an account has moved to another ledger. Nothing was
// decided. It is an ErrLedgerConfig.
type MovedError struct {
	Account string
	Ledger  string // the address of the new ledger, without secrets
}

// Error names the new ledger and says what to do.
func (e *MovedError) Error() string {
	return fmt.Sprintf("account %q has moved to the ledger %s; name that one, as ledger: in costs.yaml, "+
		"in RATION_LEDGER or with --ledger", e.Account, human.Printable(human.Shorten(e.Ledger, MaxReason)))
}

// Unwrap returns ErrLedgerConfig.
func (e *MovedError) Unwrap() error { return ErrLedgerConfig }

// Moves returns the Move by which an account is closed. ok is false if it is
// in use.
func (g *Guard) Moves(ctx context.Context, account string) (move Move, ok bool, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) {
		moved := v.Moved()
		if m := moveOf(account, &moved); m != nil {
			move, ok = *m, true
		}
	})
	return move, ok, opError("state of "+account, err)
}

// Reopen opens an account in a ledger that it has left, or to which its copy is
// given up. No process may use the other ledger: both would grant its calls.
// Reopen is a no-op if the account is in use.
func (g *Guard) Reopen(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	return opError("reopen "+account, g.Account(account).Move(ctx, ""))
}
