package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// Pass tells how far the pass of a region and tick has come. Steps is never nil.
func (c *Catalog) Pass(ctx context.Context, region string, tick time.Time) (Progress, error) {
	p, err := c.pass(ctx, region, tick.UnixMilli())
	return p, c.wrap("read the pass of "+region, err)
}

func (c *Catalog) pass(ctx context.Context, region string, tick int64) (Progress, error) {
	p := Progress{Steps: make(map[string]Checkpoint)}
	var started, fetched, finished sql.NullInt64
	err := c.queries["pass"].QueryRowContext(ctx, region, tick).Scan(&started, &fetched, &finished)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, err
	}
	p.StartedAt, p.FetchedAt, p.FinishedAt = instant(started), instant(fetched), instant(finished)

	rows, err := c.queries["checkpoints"].QueryContext(ctx, region, tick)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	for rows.Next() {
		var step string
		var k Checkpoint
		var at sql.NullInt64
		if err := rows.Scan(&step, &k.Next, &k.Pages, &k.Videos, &k.Done, &at); err != nil {
			return p, err
		}
		k.FetchedAt = instant(at)
		p.Steps[step] = k
	}
	return p, rows.Err()
}

// FinishPass records that every step of the pass is done.
func (c *Catalog) FinishPass(ctx context.Context, region string, tick time.Time) error {
	return c.wrap("finish the pass of "+region, c.write(ctx, func(b *batch) error {
		_, err := b.exec("finish_pass", region, tick.UnixMilli(), c.now().UnixMilli())
		return err
	}))
}

// Restart forgets the pass's checkpoints and that it was finished, so that it
// is fetched again from the start. What it fetched stays.
func (c *Catalog) Restart(ctx context.Context, region string, tick time.Time) error {
	return c.wrap("restart the pass of "+region, c.write(ctx, func(b *batch) error {
		if _, err := b.exec("drop_checkpoints", region, tick.UnixMilli()); err != nil {
			return err
		}
		_, err := b.exec("reopen_pass", region, tick.UnixMilli())
		return err
	}))
}

// Regions tells what was last done, for every region ever fetched.
func (c *Catalog) Regions(ctx context.Context) (map[string]Region, error) {
	all, err := c.regions(ctx)
	return all, c.wrap("read the regions", err)
}

func (c *Catalog) regions(ctx context.Context) (map[string]Region, error) {
	rows, err := c.queries["regions"].QueryContext(ctx)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[string]Region)
	for rows.Next() {
		var name string
		var tick, fetched, finished sql.NullInt64
		if err := rows.Scan(&name, &tick, &fetched, &finished); err != nil {
			return nil, err
		}
		all[name] = Region{Tick: instant(tick), FetchedAt: instant(fetched), FinishedAt: instant(finished)}
	}
	return all, rows.Err()
}

// LongestUnfetched orders regions for a run: never fetched first, then by
// their last page, ties as given. The last page counts, not the last finished
// pass: a region whose passes are too large ever to finish would stay first
// and starve the others.
func (c *Catalog) LongestUnfetched(ctx context.Context, regions []string) ([]string, error) {
	all, err := c.Regions(ctx)
	if err != nil {
		return nil, err
	}
	order := slices.Clone(regions)
	slices.SortStableFunc(order, func(a, b string) int { return all[a].FetchedAt.Compare(all[b].FetchedAt) })
	return order, nil
}

// Counts counts the rows.
func (c *Catalog) Counts(ctx context.Context) (Counts, error) {
	var n Counts
	err := c.queries["counts"].QueryRowContext(ctx).Scan(&n.Videos, &n.Positions, &n.Channels)
	return n, c.wrap("count", err)
}
