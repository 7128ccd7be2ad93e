package inspect

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
)

// Pass says which host has the current pass of a region, for JSON.
type Pass struct {
	Region string     `json:"region"`
	Tick   time.Time  `json:"tick"`
	Host   string     `json:"host"`
	PID    int        `json:"pid"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`   // when the claim lapses unless it is renewed; null if the pass is done
	DoneAt *time.Time `json:"done_at"` // null if it is not done

	Here bool `json:"-"` // it is done in this host's catalogue
}

// readPasses returns which hosts have the current passes.
func readPasses(ctx context.Context, s *setup.Setup, c *client.Client, regions []jobs.Region) ([]Pass, error) {
	passes := []Pass{}
	claims, err := jobs.PassClaims(ctx, c.Guard(), c.Table(), regions, s.Now())
	if err != nil || len(claims) == 0 {
		return passes, err
	}
	done := donePasses(ctx, s)
	for _, p := range claims {
		passes = append(passes, Pass{p.Region, p.Tick.UTC(), p.Host, p.PID, human.JSONTime(p.Since),
			human.OptionalTime(p.Until), human.OptionalTime(p.Done), done(p.Region, p.Tick)})
	}
	return passes, nil
}

// donePasses returns what reports whether a pass is done in this host's
// catalogue. Without a catalogue none is.
func donePasses(ctx context.Context, s *setup.Setup) func(region string, tick time.Time) bool {
	all := map[string]catalog.Region{}
	if store, err := s.FindCatalog(); err == nil {
		defer store.Close()
		all, _ = store.Regions(ctx)
	}
	return func(region string, tick time.Time) bool {
		r := all[region]
		return r.Tick.Equal(tick) && !r.FinishedAt.Before(tick)
	}
}
