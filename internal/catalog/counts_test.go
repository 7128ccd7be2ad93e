package catalog

import "context"

// Counts holds numbers of rows. Channels excludes missing ones.
type Counts struct{ Videos, Positions, Channels int64 }

// Counts returns the numbers of rows.
func (c *Catalog) Counts(ctx context.Context) (n Counts, err error) {
	const query = "SELECT (SELECT count(*) FROM videos), (SELECT count(*) FROM positions), (SELECT count(*) FROM " +
		"channels WHERE NOT missing)"
	err = c.db.QueryRowContext(ctx, query).Scan(&n.Videos, &n.Positions, &n.Channels)
	return n, err
}
