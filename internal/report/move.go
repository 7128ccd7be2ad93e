package report

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// MoveError is returned by Set, and by Clear for a whole account, if the
// account moves from one ledger to another; Reopen opens it. It is a
// quota.ErrLedgerConfig.
type MoveError struct{ *quota.MovedError }

// Error says what lifting it would do.
func (e *MoveError) Error() string {
	account, command := human.Name(e.Account), human.ClearCommand(e.Account, "", "")
	if e.Arriving {
		return fmt.Sprintf("account %s is being copied here from %s, and is not complete: if it were open now, "+
			"what is not copied yet would be granted again; complete the copy, or give it up with %s --reopen",
			account, human.Name(e.Ledger), command)
	}
	return fmt.Sprintf("account %s has moved from here to %s: if both were open, both would grant its calls; "+
		"once no process uses that one, %s --reopen opens this one",
		account, human.Name(e.Ledger), command)
}

// Unwrap returns the *quota.MovedError.
func (e *MoveError) Unwrap() error { return e.MovedError }

// checkMove returns a *MoveError if the account moves.
func checkMove(ctx context.Context, guard *quota.Guard, account string) error {
	moved, err := guard.Moved(ctx, account)
	if err == nil && moved != nil {
		err = &MoveError{moved}
	}
	return err
}

// Reopen opens an account in a ledger that it has left, or to which its copy is
// given up, and records that. Its cooldowns hold as before. It returns what
// ClearCooldown does.
func Reopen(ctx context.Context, guard *quota.Guard, account string) (at time.Time, out *Cleared, err error) {
	moved, err := guard.Moved(ctx, account)
	if err == nil && moved != nil {
		if err = guard.Reopen(ctx, account); err == nil {
			err = record(ctx, guard, "ledger.reopen", account, "", "")
		}
	}
	if err != nil {
		return at, nil, err
	}
	out = NewCleared(account, "", "")
	at, out.Still, err = ListCooldowns(ctx, guard, []string{account})
	return at, out, err
}
