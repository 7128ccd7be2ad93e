package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// MovedError says that an account is on its way from one ledger to another, or
// past it: see `ration ledger copy`. Calls are refused in a ledger whose log
// says so. It is an ErrLedgerConfig.
type MovedError struct {
	Account  string `json:"-"`
	Ledger   string `json:"ledger"`   // the address of the other ledger, without secrets
	Arriving bool   `json:"arriving"` // this ledger does not hold all of its log yet; else the account has left it
}

// moveOf returns what a moved record says, or nil if the account is in use.
func moveOf(account string, moved engine.Record) *MovedError {
	if moved.Text == "" {
		return nil
	}
	return &MovedError{Account: account, Ledger: moved.Text, Arriving: moved.Name == engine.Arriving}
}

// Short says where the account is, or where it comes from.
func (e *MovedError) Short() string {
	if e.Arriving {
		return "copied from " + e.Ledger
	}
	return "moved to " + e.Ledger
}

// Error names the other ledger and says what to do.
func (e *MovedError) Error() string {
	ledger := human.Printable(human.Shorten(e.Ledger, MaxReason))
	if e.Arriving {
		return fmt.Sprintf("account %s is being copied to this ledger from %s: calls are refused until the copy is "+
			"complete; if it was interrupted, run the same ration ledger copy again", human.Name(e.Account), ledger)
	}
	return fmt.Sprintf("account %q has moved to the ledger %s; name that one, as ledger: in costs.yaml, "+
		"in RATION_LEDGER or with --ledger", e.Account, ledger)
}

// Unwrap returns ErrLedgerConfig.
func (e *MovedError) Unwrap() error { return ErrLedgerConfig }

// arrivingRetry is when a call that meets an arriving account may try again.
const arrivingRetry = 5 * time.Second

// refusal returns the refusal of a call at a time, for that time.
func (e *MovedError) refusal(call *Call, at time.Time) *RefusedError {
	refused := newRefusal(call, "", ReasonCooldown)
	refused.Detail, refused.moved = e.Short(), e
	refused.RetryAt = at.Add(arrivingRetry)
	refused.RetryAfter = arrivingRetry
	return refused
}

// orMoved returns a refusal, or the *MovedError behind it if waiting does not
// help because the account has left.
func (e *RefusedError) orMoved() error {
	if e.moved == nil || e.moved.Arriving {
		return e
	}
	return e.moved
}

// Moved returns why a call was refused whose account moves, and nil for any
// other refusal.
func (e *RefusedError) Moved() *MovedError { return e.moved }

// Moved returns why an account is closed, or nil if it is in use.
func (g *Guard) Moved(ctx context.Context, account string) (moved *MovedError, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) { moved = moveOf(account, v.Moved()) })
	return moved, opError("state of "+account, err)
}

// Reopen opens an account in a ledger that it has left, or to which its copy is
// given up. No process may use the other ledger: both would grant its calls.
// Reopen is a no-op if the account is in use.
func (g *Guard) Reopen(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	return opError("reopen "+account, g.Account(account).Move(ctx, ""))
}
