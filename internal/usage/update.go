package usage

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
)

// updateTimeout is the longest time that Update takes.
const updateTimeout = 30 * time.Second

// UpdateHistory brings the history of a client's accounts up to date: Fill, and
// AddRefusals from its state folder. While the ledger is down nothing can be
// filled, which is not an error.
func UpdateHistory(ctx context.Context, store *catalog.Catalog, c *client.Client, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	table := c.Table()
	err := FillHistory(ctx, store, c.Guard(), table.Accounts())
	if client.IsDown(err) {
		err = nil
	}
	return errors.Join(err, AddRefusals(ctx, store, c.State(), table.Budgets(), now))
}
