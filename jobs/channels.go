package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
)

// fetchChannels fetches one page of channels that are neither in the catalogue
// nor claimed by another region. They stay claimed for this region until the
// page is committed or the step ends. The step is done when less than a page of
// channels is left. It does not wait for the claims of other regions: a channel
// that they fail to fetch is fetched by a later pass.
func (p *pass) fetchChannels(ctx context.Context) (catalog.Page, error) {
	ids, err := p.Catalog.ClaimChannels(ctx, p.region.Name, youtube.PageSize)
	if err != nil || len(ids) == 0 {
		return catalog.Page{Done: true}, err
	}
	stop := p.renewClaims(ctx)
	defer stop()
	page, err := p.Client.Channels(ctx, ids)
	page.Done = len(ids) < youtube.PageSize
	return page, err
}

// renewClaims renews the region's claims until stop is called. A call may wait
// for its units for longer than a claim lasts.
func (p *pass) renewClaims(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(catalog.ClaimTime / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				// Best effort: if every renewal fails, another region may fetch
				// these channels too.
				_ = p.Catalog.RenewClaims(ctx, p.region.Name)
			}
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// releaseClaims releases the channels that the step claimed and did not commit.
// If it fails, the claims lapse by themselves.
func (p *pass) releaseClaims(ctx context.Context) {
	_ = p.Catalog.ReleaseClaims(context.WithoutCancel(ctx), p.region.Name)
}
