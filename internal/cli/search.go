package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
)

// CheckSearch checks a search, and writes the region as the catalogue does.
func CheckSearch(q *catalog.Query) error {
	if q.Limit < 1 {
		return errors.New("limit: give 1 or more")
	}
	q.Region = strings.ToUpper(q.Region)
	if len(q.Region) == 2 {
		if err := jobs.CheckRegionCode(q.Region); err != nil {
			return fmt.Errorf("region: %w", err)
		}
	}
	return nil
}

// Hits is the answer to a search, for JSON.
type Hits struct {
	Hits []catalog.Hit `json:"hits"`
}

// Search searches the catalogue in the state folder.
func Search(ctx context.Context, s *setup.Setup, q catalog.Query) (*Hits, error) {
	c, err := s.FindCatalog()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	hits, err := c.Search(ctx, q)
	return &Hits{append([]catalog.Hit{}, hits...)}, err
}
