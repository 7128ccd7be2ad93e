package client

import "context"

// Accept accepts the ledger's clock and the limits of this Table for accounts
// and, if loss is true, also what the ledger has forgotten. See
// quota.Guard.AcceptClock, AcceptLimits and AcceptLoss.
func (c *Client) Accept(ctx context.Context, accounts []string, loss bool) error {
	g := c.Guard()
	for _, account := range accounts {
		if loss { // first: the next call of this host would restore it
			if err := g.AcceptLoss(ctx, account); err != nil {
				return err
			}
		}
		if err := g.AcceptClock(ctx, account); err != nil {
			return err
		}
		if err := g.AcceptLimits(ctx, account); err != nil {
			return err
		}
	}
	return nil
}

// Restamped is how many entries of an account were restamped.
type Restamped struct {
	Account string `json:"account"`
	Entries int    `json:"entries"`
}

// Restamp gives the entries of accounts that are ahead of the ledger's clock
// the current time. See quota.Guard.Restamp.
func (c *Client) Restamp(ctx context.Context, accounts []string) ([]Restamped, error) {
	all := make([]Restamped, len(accounts))
	for i, account := range accounts {
		entries, err := c.Guard().Restamp(ctx, account)
		if err != nil {
			return nil, err
		}
		all[i] = Restamped{account, entries}
	}
	return all, nil
}
