package quota

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
)

// Ledger keeps the logs of accounts: it appends on condition, and reads. All
// processes that use a quota must share one ledger. Packages memledger,
// sqliteledger, redisledger and postgresledger implement it, and package
// ledgertest tests implementations.
//
// A budget is a query on a log: which calls count, since when, and how much
// they may add up to. Limits and windows are not stored, so a change applies at
// once to what is already recorded, and every entry counts for every budget
// that covers it. Budgets that say where they are configured are an exception:
// if configurations disagree about the limit of one budget, the lowest limit
// requested within a day applies.
//
// The ledger's own clock decides. Timestamps are whole microseconds and
// strictly increasing within a log. A clock that steps back by up to
// two minutes frees no units early; one that was further ahead is corrected by
// the first process that notices. A ledger's clock that is more than five
// minutes ahead of this host's frees nothing before that.
//
// What asks a ledger returns an error that wraps ErrLedgerDown or ErrLedgerBusy
// if nothing was done, ErrInDoubt if that is not known, or ErrLedgerConfig if
// the configuration must be corrected first. It returns the context's error if
// the context ended before anything was done.
type Ledger = engine.Ledger

// What the methods of a Ledger take and return.
type (
	Append = engine.Append
	Read   = engine.Read
	Tail   = engine.Tail
)

// opError adds the operation to an error. It returns nil for nil.
func opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(op), err) // a call may have no method
}
