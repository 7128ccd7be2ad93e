package client

import "context"

// Accept accepts the limits of this Table for accounts and, if loss is true,
// also what the ledger has forgotten. See quota.Guard.AcceptLimits and
// AcceptLoss.
func (c *Client) Accept(ctx context.Context, accounts []string, loss bool) error {
	g := c.Guard()
	for _, account := range accounts {
		if loss { // first: the next call of this host would restore it
			if err := g.AcceptLoss(ctx, account); err != nil {
				return err
			}
			c.forgetRestorations(account)
		}
		if err := g.AcceptLimits(ctx, account); err != nil {
			return err
		}
	}
	return nil
}
