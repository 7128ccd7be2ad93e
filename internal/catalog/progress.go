package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// Pass returns the progress of a region's pass. Its Steps are never nil.
func (c *Catalog) Pass(ctx context.Context, region string, tick time.Time) (PassState, error) {
	p, err := c.readPass(ctx, region, tick.UnixMilli())
	return p, c.wrap("read the pass of "+region, err)
}

func (c *Catalog) readPass(ctx context.Context, region string, tick int64) (PassState, error) {
	p := PassState{Steps: make(map[string]Checkpoint)}
	err := c.queries["pass"].QueryRowContext(ctx, region, tick).Scan((*stamp)(&p.FinishedAt))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, err
	}

	rows, err := c.queries["checkpoints"].QueryContext(ctx, region, tick)
	return p, eachRow(rows, err, func() error {
		var step string
		var k Checkpoint
		err := rows.Scan(&step, &k.Next, &k.Pages, &k.Videos, &k.Done)
		p.Steps[step] = k
		return err
	})
}

// Advance records how far another catalogue's run has come with the pass, and
// returns its progress. Steps that this one has come further with stay as they
// are.
func (c *Catalog) Advance(ctx context.Context, region string, tick time.Time,
	steps map[string]Checkpoint) (PassState, error) {
	err := c.write(ctx, "advance the pass of "+region, func(b *transaction) error {
		now := c.now().UnixMilli()
		b.exec("put_pass", region, tick.UnixMilli(), now)
		for name, k := range steps {
			b.exec("advance_checkpoint", region, tick.UnixMilli(), name, k.Next, k.Pages, k.Videos, k.Done, now)
		}
		b.exec("drop_older_checkpoints", region, tick.UnixMilli())
		return nil
	})
	if err != nil {
		return PassState{}, err
	}
	return c.Pass(ctx, region, tick)
}

// FinishPass records that every step of the pass is done.
func (c *Catalog) FinishPass(ctx context.Context, region string, tick time.Time) error {
	return c.write(ctx, "finish the pass of "+region, func(b *transaction) error {
		b.exec("finish_pass", region, tick.UnixMilli(), c.now().UnixMilli())
		return nil
	})
}

// Restart deletes the pass's checkpoints and marks it unfinished, so that it is
// fetched again from the start, and returns its progress. Its rows stay.
func (c *Catalog) Restart(ctx context.Context, region string, tick time.Time) (PassState, error) {
	err := c.write(ctx, "restart the pass of "+region, func(b *transaction) error {
		b.exec("drop_checkpoints", region, tick.UnixMilli())
		b.exec("reopen_pass", region, tick.UnixMilli())
		return nil
	})
	if err != nil {
		return PassState{}, err
	}
	return c.Pass(ctx, region, tick)
}

// Regions returns all regions that were ever fetched, by name.
func (c *Catalog) Regions(ctx context.Context) (map[string]Region, error) {
	rows, err := c.queries["regions"].QueryContext(ctx)
	all := make(map[string]Region)
	err = eachRow(rows, err, func() error {
		var name string
		var r Region
		err := rows.Scan(&name, (*stamp)(&r.Tick), (*stamp)(&r.FetchedAt), (*stamp)(&r.FinishedAt))
		all[name] = r
		return err
	})
	return all, c.wrap("read the regions", err)
}

// RecentPasses returns the passes that began last, newest first.
func (c *Catalog) RecentPasses(ctx context.Context, limit int) ([]PassSummary, error) {
	rows, err := c.queries["recent_passes"].QueryContext(ctx, limit)
	var all []PassSummary
	err = eachRow(rows, err, func() error {
		var p PassSummary
		err := rows.Scan(&p.Region, (*stamp)(&p.Tick), (*stamp)(&p.StartedAt), (*stamp)(&p.FetchedAt),
			(*stamp)(&p.FinishedAt))
		all = append(all, p)
		return err
	})
	return all, c.wrap("read the passes", err)
}

// LongestUnfetched returns regions in the order in which a run fetches them:
// first those never fetched, then by the time of their last page. Equal regions
// keep their order. The last page counts, not the last finished pass: otherwise
// a region whose passes never finish would always be first.
func (c *Catalog) LongestUnfetched(ctx context.Context, regions []string) ([]string, error) {
	all, err := c.Regions(ctx)
	if err != nil {
		return nil, err
	}
	order := slices.Clone(regions)
	slices.SortStableFunc(order, func(a, b string) int { return all[a].FetchedAt.Compare(all[b].FetchedAt) })
	return order, nil
}
