package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// MissingError says that the ledger of an account lacks a grant of this host,
// or an entry that it found with a refusal: the ledger has forgotten, or it is
// another one than it was.
type MissingError struct {
	Account string    `json:"account"`
	Granted time.Time `json:"granted_at"` // when the newest of these entries was
}

// Error says what follows.
func (e *MissingError) Error() string {
	return fmt.Sprintf("account %s: the ledger has forgotten what this host was granted or heard of, last at %s, so more is shown as left than is; the next call restores what this host knows",
		human.Name(e.Account), human.Time(e.Granted))
}

// Missing returns a *MissingError for each account whose ledger has forgotten
// what this host was granted, in the order of costs.yaml. The next call notices
// that, too.
func (c *Client) Missing(ctx context.Context) (all []*MissingError, err error) {
	all = []*MissingError{}
	for _, account := range c.table.Accounts() {
		granted, err := c.journal.Missing(ctx, account)
		if err != nil {
			return all, err
		}
		if granted.IsZero() {
			continue
		}
		onlyCounts, err := c.onlyCounts(ctx, account)
		if err != nil {
			return all, err
		}
		if !onlyCounts {
			all = append(all, &MissingError{account, granted.UTC()})
		}
	}
	return all, nil
}

// onlyCounts reports whether the log of an account has counts of counter
// windows, and has had no entries: it keeps none before the first call that
// another window covers.
func (c *Client) onlyCounts(ctx context.Context, account string) (bool, error) {
	if c.guard == nil { // there is no ledger
		return false, nil
	}
	if needsLog, err := c.journal.HeardOfEntries(account); needsLog || err != nil {
		return false, err
	}
	for _, err := range c.journal.Entries(ctx, quota.Query{Account: account}) {
		if errors.Is(err, quota.ErrLedgerLost) {
			err = nil
		}
		return false, err
	}
	balances, err := c.guard.AccountBalances(ctx, account)
	return slices.ContainsFunc(balances, func(b quota.Balance) bool { return b.Budget.Window.Estimate() && b.Used > 0 }), err
}

// CheckMissing returns a *ConfigError if the ledger of one of the accounts has
// forgotten what this host was granted. A copy of it would lack that.
func (c *Client) CheckMissing(ctx context.Context, accounts []string) error {
	missing, err := c.Missing(ctx)
	for _, m := range missing {
		if slices.Contains(accounts, m.Account) {
			return &ConfigError{Err: fmt.Errorf("%w; make one on each host, as by ration run, and copy the ledger then", m)}
		}
	}
	return err
}
