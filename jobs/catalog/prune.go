package catalog

import "context"

// Pruned counts what Prune deleted.
type Pruned struct {
	Videos    int64
	Positions int64
	Channels  int64
}

// pruneBatch is how many rows one transaction deletes: some tens of
// milliseconds for videos, so that a run waits little for its turn.
const pruneBatch = 500

// Prune deletes what was not refreshed within the retention, a batch a
// transaction. After an error, or the context's end, what was deleted stays
// deleted and the counts say how much that is.
func (c *Catalog) Prune(ctx context.Context) (Pruned, error) {
	var p Pruned
	if c.retention < 0 {
		return p, nil
	}
	before := c.cutoff()
	var rest int64
	for _, q := range []struct {
		name string
		into *int64
	}{
		{"prune_positions", &p.Positions}, {"prune_sightings", &rest}, {"prune_videos", &p.Videos},
		{"prune_channels", &p.Channels}, {"prune_categories", &rest}, {"prune_pages", &rest}, {"prune_passes", &rest},
	} {
		for {
			n, err := c.pruneSome(ctx, q.name, before)
			*q.into += n
			if err != nil {
				return p, c.wrap("prune", err)
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return p, nil
}

func (c *Catalog) pruneSome(ctx context.Context, name string, before int64) (n int64, err error) {
	err = c.write(ctx, func(b *batch) error {
		res, err := b.exec(name, before, pruneBatch)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// cutoff is the oldest instant that is still kept.
func (c *Catalog) cutoff() int64 {
	if c.retention < 0 {
		return 0
	}
	return c.now().Add(-c.retention).UnixMilli()
}
