package catalog

import "context"

// Pruned holds the numbers of rows that Prune deleted.
type Pruned struct {
	Videos    int64
	Positions int64
	Channels  int64
}

// pruneBatch is the number of rows that one transaction deletes. It takes some
// tens of milliseconds for videos, so other writers do not wait long.
const pruneBatch = 500

// Prune deletes the rows that were not refreshed within the retention, in
// several transactions. If it returns an error, the counts say what was deleted
// until then.
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
		{"prune_failures", &rest},
	} {
		for {
			n, err := c.deleteSome(ctx, q.name, before)
			*q.into += n
			if err != nil {
				return p, err
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return p, nil
}

func (c *Catalog) deleteSome(ctx context.Context, name string, before int64) (n int64, err error) {
	err = c.write(ctx, "prune", func(b *transaction) error {
		res, err := b.stmt(name).ExecContext(ctx, before, pruneBatch)
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

// cutoff returns the oldest time that is within the retention, in milliseconds.
func (c *Catalog) cutoff() int64 {
	if c.retention < 0 {
		return 0
	}
	return c.now().Add(-c.retention).UnixMilli()
}
