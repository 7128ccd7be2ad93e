package cooldown

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgercopy"
)

// MoveError is returned by Set, and by Clear for a whole account, if the
// account moves from one ledger to another: a cooldown closes it, which Reopen
// lifts. It is a quota.ErrLedgerConfig.
type MoveError struct{ quota.Move }

// Error says what lifting it would do.
func (e *MoveError) Error() string {
	account, command := human.Name(e.Account), human.ClearCommand(e.Account, "")
	if e.Arriving {
		return fmt.Sprintf("account %s is being copied here from %s, and is not complete: if it were open now, what is not copied yet would be granted again; complete the copy, or give it up with %s --reopen",
			account, human.Name(e.Ledger), command)
	}
	return fmt.Sprintf("account %s has moved from here to %s: if both were open, both would grant its calls; once no process uses that one, %s --reopen opens this one",
		account, human.Name(e.Ledger), command)
}

// Unwrap returns quota.ErrLedgerConfig.
func (e *MoveError) Unwrap() error { return quota.ErrLedgerConfig }

// checkMove returns a *MoveError if one of the cooldowns is that of a Move.
func checkMove(held []quota.Cooldown) error {
	for i := range held {
		if move, ok := held[i].Move(); ok {
			return &MoveError{move}
		}
	}
	return nil
}

// Reopen opens an account in a ledger that it has left, or to which its
// copy is given up. The cooldown that the account had before the move is in
// force again. It returns what Clear does.
func Reopen(ctx context.Context, guard *quota.Guard, account string) (at time.Time, out *Cleared, err error) {
	if err := reopen(ctx, guard, account); err != nil {
		return at, nil, err
	}
	out = NewCleared(account, "")
	at, out.Still, err = List(ctx, guard, []string{account})
	return at, out, err
}

func reopen(ctx context.Context, guard *quota.Guard, account string) error {
	_, moves, err := guard.Moves(ctx, account)
	if err != nil || !moves {
		return err
	}
	if err := guard.Uncool(ctx, account, ""); err != nil {
		return err
	}
	if err := ledgercopy.PutBackCooldown(context.WithoutCancel(ctx), guard.Log(), account); err != nil {
		return err
	}
	return record(ctx, guard, "ledger.reopen", account, "")
}
