package engine

import (
	"context"
	"fmt"
	"strings"
)

// LookAlikeError says that an account has no log yet, and that the ledger
// has one of an account whose name differs only in case or in spaces
// around it. Each would have the whole limit. Nothing was decided. It is
// an ErrLedgerConfig.
type LookAlikeError struct {
	Account string // as it was asked for
	Known   string // the account that the ledger has
}

// Error names both accounts and says what to do.
func (e *LookAlikeError) Error() string {
	return fmt.Sprintf("account %q has no log, but account %q has one in this ledger; two spellings would each have "+
		"the whole limit: write %q, or choose a name that differs in more than case and spaces",
		e.Account, e.Known, e.Known)
}

// Unwrap returns ErrLedgerConfig.
func (e *LookAlikeError) Unwrap() error { return ErrLedgerConfig }

// IsAlike reports whether the names of the error's accounts look alike and are
// not the same.
func (e *LookAlikeError) IsAlike() bool {
	return e.Account != e.Known && strings.EqualFold(strings.TrimSpace(e.Account), strings.TrimSpace(e.Known))
}

// checkLookAlike refuses an account without a log whose name looks like that of
// one which has one.
func (a *Account) checkLookAlike(ctx context.Context) error {
	if a.fold.known.Epoch != 0 {
		return nil
	}
	for known, err := range a.engine.ledger.Accounts(ctx) {
		if err != nil {
			return err
		}
		if alike := (&LookAlikeError{a.name, known}); alike.IsAlike() {
			return alike
		}
	}
	return nil
}
