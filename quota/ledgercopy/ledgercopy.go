// Package ledgercopy moves accounts from one ledger to another while processes
// use both.
//
// A Copy closes the account in both ledgers, copies what the old one holds, and
// opens the new one. The old one stays closed: see quota.Move. No call is
// therefore decided by two ledgers, or by one that does not know of all earlier
// calls. Whatever ends a copy halfway leaves both closed, and the same copy
// goes on from there.
//
// The entries are restored (quota.Log.Restore) with their ids, kinds and
// timestamps, so that copying one twice changes nothing. Cooldowns keep their
// ends and reasons. Three things are in no entry:
//
//   - What an estimate (quota.Counter) has counted becomes a note at the time of the
//     copy, so it counts for longer than it would have.
//   - A lower limit that another configuration has asked holds on for a day.
//   - A batch that is repeated on the new ledger is decided there anew.
package ledgercopy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Copy moves accounts from one ledger to another. Its methods must not be
// called concurrently. Several processes may run the same copy.
type Copy struct {
	From, To         quota.Log // To may be nil in Plan: it does not exist yet
	FromName, ToName string       // the addresses, without secrets; those of one ledger are equal
	Budgets          []quota.Budget

	// Progress is called while the entries of a log are read, with how many
	// there are so far. nil disables the callback.
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

// Report says what a Copy found in the old ledger, or has copied, of
// one account.
type Report struct {
	Account   string           `json:"account"`
	State     State            `json:"state"` // before the copy
	Entries   int64            `json:"entries"`
	Units     quota.Units      `json:"units"`
	Calls     quota.Units      `json:"calls"`
	Oldest    *time.Time       `json:"oldest"` // null without entries
	Newest    *time.Time       `json:"newest"`
	Keys      int              `json:"keys"` // that have a log of their own
	Cooldowns []CooldownReport `json:"cooldowns"`
	Estimates []EstimateReport `json:"estimates"` // what counters hold beside the entries
	Late      int              `json:"late"`      // entries that were settled or added in the old ledger after they were copied
	Stays     int              `json:"stays"`     // calls that were refunded too late, so that their units stay charged
}

// CooldownReport is a cooldown that moves with its account.
type CooldownReport struct {
	Budget *string   `json:"budget"` // null: the whole account
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// EstimateReport is what a budget's counters hold beside the entries, of
// all keys.
type EstimateReport struct {
	Budget string      `json:"budget"`
	Used   quota.Units `json:"used"` // units or calls, as the budget counts
}

// stateError says why an account cannot be copied, and what to do. It is a
// quota.ErrLedgerConfig.
type stateError string

func (e stateError) Error() string { return string(e) }
func (e stateError) Unwrap() error { return quota.ErrLedgerConfig }

// UnfinishedError says that a copy ended halfway. Both ledgers are closed for
// the account, or at least the new one.
type UnfinishedError struct {
	Account string
	Err     error
}

// Error says what to do.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%v; account %q stays closed in both ledgers until the copy is complete: run the same command again", e.Err, e.Account)
}

// Unwrap returns Err.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// account is the copy of one account.
type account struct {
	*Copy
	name    string
	id      string // of the Move
	budgets []quota.Budget
	charges []*quota.Charge // of budgets
	report  *Report
	now     time.Time // on the old ledger's clock, when it was last asked
	same    bool      // the ledgers are one
	opened  bool      // the new ledger is in use
	tails   map[string]*tail
}

func (c *Copy) account(name string) *account {
	sum := sha256.Sum256([]byte(c.FromName + "\x00" + c.ToName))
	a := &account{Copy: c, name: name, id: hex.EncodeToString(sum[:6]), tails: map[string]*tail{},
		report: &Report{Account: name, Cooldowns: []CooldownReport{}, Estimates: []EstimateReport{}}}
	coverages := quota.Coverages(c.Budgets)
	for i, b := range c.Budgets {
		if b.Account == name && !b.Shadow {
			a.budgets = append(a.budgets, b)
			a.charges = append(a.charges, &quota.Charge{Budget: b.Name, Coverage: coverages[i], Limit: b.Limit, Window: b.Window, Config: b.Config})
		}
	}
	return a
}

func (a *account) failed(format string, args ...any) error {
	return stateError(fmt.Sprintf("account %q: ", a.name) + fmt.Sprintf(format, args...))
}

// from and to say which ledger an error is about.
func (c *Copy) from(err error) error { return about(c.FromName, err) }
func (c *Copy) to(err error) error   { return about(c.ToName, err) }

func about(ledger string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger %s: %w", ledger, err)
}

// Plan returns what Move would copy of an account. It changes nothing.
func (c *Copy) Plan(ctx context.Context, name string) (*Report, error) {
	a := c.account(name)
	if err := a.plan(ctx); err != nil {
		return nil, err
	}
	return a.report, nil
}

func (a *account) plan(ctx context.Context) error {
	if a.FromName == a.ToName {
		return a.failed("the copy would go from %s to itself; name another ledger", a.FromName)
	}
	if err := a.checkState(ctx); err != nil {
		return err
	}
	if err := a.checkClocks(ctx); err != nil {
		return err
	}
	if err := a.readTotals(ctx); err != nil {
		return a.from(err)
	}
	return a.readCooldowns(ctx, func(c quota.Cooldown) error {
		report := CooldownReport{Until: c.Until, Reason: c.Reason}
		if c.Budget != "" {
			report.Budget = &c.Budget
		}
		a.report.Cooldowns = append(a.report.Cooldowns, report)
		return nil
	})
}

// readTotals adds up the entries of the account's log and of those of its keys,
// and checks that none is ahead of the clock: it would be stamped anew.
func (a *account) readTotals(ctx context.Context) error {
	keys, err := a.keys(ctx)
	if err != nil {
		return err
	}
	r := a.report
	for _, key := range keys {
		t, err := totalOf(ctx, a.From, a.name, key)
		if err != nil {
			return err
		}
		if t.last.After(a.now.Add(quota.MaxStepBack)) {
			return a.failed("%s has entries stamped up to %s, which is ahead of its clock; correct the clock, then restamp the log (ration ledger restamp)", a.FromName, t.last.Format(time.RFC3339))
		}
		if quota.IsReserved(key) {
			continue
		}
		r.add(&t)
		if t.entries > 0 && (r.Oldest == nil || t.first.Before(*r.Oldest)) {
			r.Oldest = &t.first
		}
		if t.entries > 0 && (r.Newest == nil || t.last.After(*r.Newest)) {
			r.Newest = &t.last
		}
		if key != "" {
			r.Keys++
		}
	}
	return nil
}

// keys returns the keys that have a log, after the empty one of the
// account's own.
func (a *account) keys(ctx context.Context) ([]string, error) {
	keys := []string{""}
	for key, err := range a.From.Keys(ctx, a.name) {
		if err != nil {
			return nil, err
		}
		if key != copiedKey {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// total is what the entries of one log add up to.
type total struct {
	entries      int64
	units, calls quota.Units
	first, last  time.Time
}

// add adds the entries of one log.
func (r *Report) add(t *total) {
	r.Entries += t.entries
	r.Units += t.units
	r.Calls += t.calls
}

func totalOf(ctx context.Context, l quota.Log, name, key string) (t total, err error) {
	for sum, err := range l.Sums(ctx, quota.Query{Account: name, Key: key}) {
		if err != nil {
			return t, err
		}
		t.entries += sum.Entries
		t.units += sum.Units
		t.calls += sum.Calls
		if t.first.IsZero() || sum.First.Before(t.first) {
			t.first = sum.First
		}
		if sum.Last.After(t.last) {
			t.last = sum.Last
		}
	}
	return t, nil
}

// checkClocks checks that the ledgers' clocks agree: with the timestamps of one
// and the clock of the other, units would return early.
func (a *account) checkClocks(ctx context.Context) (err error) {
	if a.now, err = clockOf(ctx, a.From, a.name); err != nil || a.To == nil {
		return a.from(err)
	}
	asked := time.Now()
	at, err := clockOf(ctx, a.To, a.name)
	if err != nil {
		return a.to(err)
	}
	ahead := at.Sub(a.now)
	if quota.RealTime(a.To) {
		ahead -= time.Since(asked)
	}
	if ahead.Abs() > quota.MaxClockSkew {
		return a.failed("the clock of %s shows %s, and that of %s %s; correct the one that is wrong", a.FromName, a.now.Format(time.RFC3339), a.ToName, at.Format(time.RFC3339))
	}
	return nil
}

func clockOf(ctx context.Context, l quota.Log, name string) (time.Time, error) {
	charge := &quota.Charge{Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 1, Window: quota.Sliding(time.Minute)}
	standings, err := l.Standings(ctx, name, "", []*quota.Charge{charge})
	if err != nil {
		return time.Time{}, err
	}
	return standings[0].At, nil
}
