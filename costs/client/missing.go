package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
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
	return fmt.Sprintf("account %s: the ledger has forgotten what this host was granted or told of, last at %s, so more is shown as left than is; the next call restores what this host knows",
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
		if !granted.IsZero() {
			all = append(all, &MissingError{account, granted.UTC()})
		}
	}
	return all, nil
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

// Missing is Client.Missing for a ledger that does not exist.
func Missing(ctx context.Context, table *costs.Table, o *Options) ([]*MissingError, error) {
	return offline(table, o).Missing(ctx)
}
