// A Copy moves accounts from one ledger to another while processes
// use both. An Old is a ledger of an earlier release, from which they move too.
//
// A Copy first closes the account in the new ledger, which must hold nothing of
// it, and copies the log. Then it closes the old one, copies what that got
// meanwhile, and opens the new one. The old one stays closed. So no call is
// decided by two ledgers, or by one that does not know of all earlier calls,
// and the account is closed in both only while the last records are copied.
//
// Records keep their ids and times. A log is a set of records, so copying one
// twice changes nothing: a copy that was interrupted is completed by running it
// again, and several processes may run the same copy. For the same reason an
// account can return to a ledger that it has left.
//
// An account is closed by a moved record, which names the other ledger.
// Processes decide again what they have decided without it.

package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Copy moves accounts from one ledger to another. Its methods must not be
// called concurrently.
type Copy struct {
	From, To         engine.Ledger // From may be an *Old; To may be nil in Plan: it does not exist yet
	FromName, ToName string        // the addresses, without secrets; those of one ledger are equal

	// Progress is called for each grant and note that is copied, with how many
	// these are so far. nil disables the callback.
	Progress func(account string, entries int)
}

// State is how far the copy of an account is.
type State string

// The states of a copy.
const (
	Ready      State = "ready"      // nothing was done yet
	Unfinished State = "unfinished" // an earlier copy was interrupted
	Moved      State = "moved"      // the new ledger is in use
)

// Report says what a Copy found in the old ledger of one account.
type Report struct {
	Account   string           `json:"account"`
	State     State            `json:"state"` // before the copy
	Entries   int64            `json:"entries"`
	Units     int64            `json:"units"`
	Calls     int64            `json:"calls"`
	Oldest    *time.Time       `json:"oldest"` // null without entries
	Newest    *time.Time       `json:"newest"`
	Keys      int              `json:"keys"` // that have entries
	Cooldowns []CooldownReport `json:"cooldowns"`
	Late      int              `json:"late"` // entries that were settled or added after the new ledger was opened
}

// CooldownReport is a cooldown that moves with its account.
type CooldownReport struct {
	Budget *string   `json:"budget"` // null: the whole account
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// stateError says why an account cannot be copied, and what to do. It is an
// engine.ErrLedgerConfig.
type stateError string

func (e stateError) Error() string { return string(e) }
func (e stateError) Unwrap() error { return engine.ErrLedgerConfig }

// UnfinishedError says that a copy ended halfway: the new ledger is closed for
// the account.
type UnfinishedError struct {
	Account  string
	FromOpen bool // the old ledger is not closed yet
	Err      error
}

// Error says what to do.
func (e *UnfinishedError) Error() string {
	where := "both ledgers"
	if e.FromOpen {
		where = "the new ledger"
	}
	return fmt.Sprintf("%v; account %q stays closed in %s until the copy is complete: run the same command again",
		e.Err, e.Account, where)
}

// Unwrap returns Err.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// ErrEmpty means that the old ledger holds no account.
var ErrEmpty = errors.New("the ledger holds nothing")

// Accounts returns the accounts to move, which are those that are known and
// those of the old ledger. It returns ErrEmpty if the old ledger holds nothing:
// it is probably another one that is meant, and what callers of that have spent
// would be missing in the new one.
func (c *Copy) Accounts(ctx context.Context, known []string) (names []string, err error) {
	names = slices.Clone(known)
	isEmpty := true
	for name, err := range c.From.Accounts(ctx) {
		if err != nil {
			return nil, fmt.Errorf("ledger %s: %w", c.FromName, err)
		}
		if isEmpty = false; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if isEmpty {
		return nil, ErrEmpty
	}
	return names, nil
}

// Plan returns what Move would copy of an account. It changes nothing.
func (c *Copy) Plan(ctx context.Context, name string) (*Report, error) {
	a := c.account(name)
	if err := a.plan(ctx); err != nil {
		return nil, err
	}
	if err := a.summarize(ctx); err != nil {
		return nil, err
	}
	return a.report, nil
}

// account is the copy of one account.
type account struct {
	*Copy
	name     string
	from, to *log
	report   *Report
	isOpened bool // the new ledger is in use
	copied   int  // grants and notes
}

func (c *Copy) account(name string) *account {
	return &account{Copy: c, name: name, report: &Report{Account: name, Cooldowns: []CooldownReport{}}}
}

func (a *account) failed(format string, args ...any) error {
	return stateError(fmt.Sprintf("account %q: ", a.name) + fmt.Sprintf(format, args...))
}

// maxSkew is the largest difference between the clocks of two ledgers.
const maxSkew = time.Minute

// checkClocks checks that the ledgers' clocks agree: with the timestamps of one
// and the clock of the other, units would return early.
func (a *account) checkClocks() error {
	ahead := time.Duration(a.to.now-a.from.now) * time.Microsecond
	if a.To == nil || ahead.Abs() <= maxSkew {
		return nil
	}
	return a.failed("the clock of %s shows %s, and that of %s %s; correct the one that is wrong", a.FromName,
		timeOf(a.from.now).Format(time.RFC3339), a.ToName, timeOf(a.to.now).Format(time.RFC3339))
}

// timeOf returns a time of a ledger.
func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// summarize fills the report with what the old ledger holds.
func (a *account) summarize(ctx context.Context) error {
	err := engine.New(a.From, nil).Account(a.name).View(ctx, func(v *engine.View) {
		r := a.report
		r.Entries = 0
		r.Units = 0
		r.Calls = 0
		r.Keys = len(v.Keys())
		r.Oldest = nil
		r.Newest = nil
		r.Cooldowns = []CooldownReport{}
		v.Entries(0, engine.Never, false, func(e engine.Entry) bool {
			at := timeOf(e.At)
			if r.Newest = &at; r.Oldest == nil {
				r.Oldest = &at
			}
			r.Entries++
			r.Units += e.Amounts.Units
			r.Calls += e.Amounts.Calls
			return true
		})
		for _, c := range v.Cooldowns() {
			report := CooldownReport{Until: timeOf(c.Until), Reason: c.Text}
			if c.Name != "" {
				report.Budget = &c.Name
			}
			r.Cooldowns = append(r.Cooldowns, report)
		}
	})
	if err != nil {
		return a.from.failed(err)
	}
	return nil
}
