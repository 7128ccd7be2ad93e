package catalog

import (
	"context"
	"time"
)

// ClaimTime is how long a claim holds that is neither renewed, committed nor
// released: the time after which the channels of a process that was killed can
// be claimed by another region.
const ClaimTime = 2 * time.Minute

// ClaimChannels claims for a region up to limit channels of the videos that its
// passes met, and returns their ids, newest videos' first. It passes over
// channels that were fetched within the retention and those that another
// region's claim holds, so of several regions, in one process or in several,
// one pays for a channel. It never waits for another region's claim.
//
// Commit the answer of channels.list as Channels, and the other ids as
// MissingChannels: this ends their claims. Call RenewClaims at least once in a
// ClaimTime while the call is in flight, and ReleaseClaims if it failed.
//
// Claims belong to the region, not to the process. Hold the region's lock
// (Lock) from the first claim to the last commit. A later run that holds the
// lock gets the channels of a run that was killed at once; other regions get
// them after ClaimTime.
func (c *Catalog) ClaimChannels(ctx context.Context, region string, limit int) ([]string, error) {
	var ids []string
	err := c.write(ctx, func(b *batch) error {
		now := c.now()
		var err error
		if ids, err = b.freeChannels(region, now, limit); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := b.exec("put_claim", id, region, now.Add(ClaimTime).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, c.wrap("claim channels for "+region, err)
	}
	return ids, nil
}

// freeChannels drops claims that have lapsed and returns the channels that the
// region may claim. A claim that ends later than any claim made now has lapsed
// too: the clock was set back.
func (b *batch) freeChannels(region string, now time.Time, limit int) ([]string, error) {
	if _, err := b.exec("drop_lapsed_claims", now.UnixMilli(), now.Add(ClaimTime).UnixMilli()); err != nil {
		return nil, err
	}
	rows, err := b.stmt("free_channels").QueryContext(b.ctx, region, b.c.cutoff(), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// RenewClaims makes the region's claims hold for another ClaimTime from now.
func (c *Catalog) RenewClaims(ctx context.Context, region string) error {
	return c.wrap("renew the claims of "+region, c.write(ctx, func(b *batch) error {
		_, err := b.exec("renew_claims", region, c.now().Add(ClaimTime).UnixMilli())
		return err
	}))
}

// ReleaseClaims ends the region's claims: other regions can claim the channels
// from now on. It is a no-op if the region has none.
func (c *Catalog) ReleaseClaims(ctx context.Context, region string) error {
	return c.wrap("release the claims of "+region, c.write(ctx, func(b *batch) error {
		_, err := b.exec("release_claims", region)
		return err
	}))
}
