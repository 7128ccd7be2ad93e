package cli

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
)

// FillEntries brings the history of a client's accounts up to date. The
// catalogue is made if there is none: the history is kept there, even without a
// regions.yaml. While the ledger is down nothing can be filled, which is not an
// error.
func FillEntries(ctx context.Context, s *setup.Setup, c *client.Client) error {
	store, err := s.OpenCatalog()
	if err != nil {
		return err
	}
	defer store.Close()
	return usage.UpdateHistory(ctx, store, c, s.Now())
}
