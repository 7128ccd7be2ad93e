package catalog

import (
	"context"
	"time"
)

// ClaimTime is how long a claim lasts unless it is renewed or released. After
// that time another region can claim the channels of a process that was killed.
const ClaimTime = 2 * time.Minute

// ClaimChannels claims up to limit channels for a region and returns their ids.
// They are channels of videos that the region's passes have met, newest videos
// first. Channels that were fetched within the retention or are claimed by
// another region are skipped, so that only one region, in any process, pays for
// a channel. ClaimChannels does not wait for claims of other regions.
//
// Committing a channel in Page.Channels or Page.MissingChannels ends its claim.
// Call RenewClaims at least every ClaimTime while the call is in flight, and
// ReleaseClaims if it fails.
//
// Claims belong to the region, not to the process. Hold the region's Lock from
// the first claim to the last commit. The next run that holds the lock gets the
// channels of a killed run at once; other regions get them after ClaimTime.
func (c *Catalog) ClaimChannels(ctx context.Context, region string, limit int) ([]string, error) {
	var ids []string
	err := c.write(ctx, "claim channels for "+region, func(b *transaction) error {
		now := c.now()
		var err error
		if ids, err = b.freeChannels(region, now, limit); err != nil {
			return err
		}
		for _, id := range ids {
			b.exec("put_claim", id, region, now.Add(ClaimTime).UnixMilli())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// freeChannels drops lapsed claims and returns the channels that the region may
// claim. A claim that ends later than one made now has lapsed too, since the
// clock was set back.
func (b *transaction) freeChannels(region string, now time.Time, limit int) ([]string, error) {
	b.exec("drop_lapsed_claims", now.UnixMilli(), now.Add(ClaimTime).UnixMilli())
	rows, err := b.stmt("free_channels").QueryContext(b.ctx, region, b.c.cutoff(), limit)
	var ids []string
	err = eachRow(rows, err, func() error {
		ids = append(ids, "")
		return rows.Scan(&ids[len(ids)-1])
	})
	return ids, err
}

// RenewClaims extends the region's claims to ClaimTime from now.
func (c *Catalog) RenewClaims(ctx context.Context, region string) error {
	return c.write(ctx, "renew the claims of "+region, func(b *transaction) error {
		b.exec("renew_claims", region, c.now().Add(ClaimTime).UnixMilli())
		return nil
	})
}

// ReleaseClaims ends the region's claims, so that other regions can claim the
// channels. It is a no-op if the region has none.
func (c *Catalog) ReleaseClaims(ctx context.Context, region string) error {
	return c.write(ctx, "release the claims of "+region, func(b *transaction) error {
		b.exec("release_claims", region)
		return nil
	})
}
