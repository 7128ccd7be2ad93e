package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
)

// channels fetches one page of the channels that the catalogue does not know
// and that no other region is asking for. They are claimed for the region until
// the page is committed or the step ends. The step is done when fewer than a
// page are free, without waiting for the claims of other regions: a channel
// that its claimant does not get is fetched with a later pass.
func (p *pass) channels(ctx context.Context) (catalog.Page, error) {
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

// renewClaims keeps the region's claims from lapsing until stop is called: a
// call may wait for its units for longer than a claim holds.
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
				// After an error the next renewal may still be in time. If none is,
				// another region may pay for these channels once more.
				_ = p.Catalog.RenewClaims(ctx, p.region.Name)
			}
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// releaseClaims lets other regions ask for the channels that the step claimed
// and did not commit. After an error the claims lapse by themselves.
func (p *pass) releaseClaims(ctx context.Context) {
	_ = p.Catalog.ReleaseClaims(context.WithoutCancel(ctx), p.region.Name)
}
