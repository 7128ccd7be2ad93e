package entries

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/history"
	"github.com/ration-dev/ration/jobs/setup"
)

// Fill brings the history of a client's accounts up to date. The catalogue is
// made if there is none: the history is kept there, even without a
// regions.yaml. While the ledger is down nothing can be filled, which is not
// an error.
func Fill(ctx context.Context, s *setup.Setup, c *client.Client) error {
	store, err := s.OpenCatalog()
	if err != nil {
		return err
	}
	defer store.Close()
	return history.Update(ctx, store, c, s.Now())
}
