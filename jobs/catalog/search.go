package catalog

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"time"
)

// maxMatches bounds what one search ranks: the matches first seen most
// recently. A common word then costs the same in any catalogue.
const maxMatches = 5000

const defaultHits = 20

// URL is the video's page. The id is escaped.
func (v Video) URL() string { return "https://www.youtube.com/watch?v=" + url.QueryEscape(v.ID) }

// Search finds videos by the words of their title, description, channel and
// tags, best first: a word in the title weighs ten times one in the description.
// At most the newest 5,000 matches are ranked. Equal hits are ordered by
// publication, newest first, then by id.
//
// Any text is a query, and no text is a syntax error: see Query.Text.
// ErrEmptyQuery when there is no word in it.
func (c *Catalog) Search(ctx context.Context, q Query) ([]Hit, error) {
	expr, err := matchExpr(q.Text)
	if err != nil {
		return nil, err
	}
	var since time.Time
	if q.MaxAge > 0 {
		since = c.now().Add(-q.MaxAge)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultHits
	}
	hits, err := c.search(ctx, expr, q.Region, since, min(limit, c.matches))
	return hits, c.wrap("search", err)
}

func (c *Catalog) search(ctx context.Context, expr, region string, since time.Time, limit int) ([]Hit, error) {
	rows, err := c.queries["search"].QueryContext(ctx, expr, region, millis(since), c.matches, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	var keys []int64
	for rows.Next() {
		var h Hit
		var n int64
		var published, fetched sql.NullInt64
		var tags string
		if err := rows.Scan(&n, &h.ID, &h.Title, &h.Description, &h.ChannelID, &h.ChannelTitle, &h.CategoryID,
			&published, &tags, &h.Views, &h.Likes, &h.Comments, &fetched, &h.Category); err != nil {
			return nil, err
		}
		h.PublishedAt, h.FetchedAt = instant(published), instant(fetched)
		if tags != "" {
			h.Tags = strings.Split(tags, "\n")
		}
		hits, keys = append(hits, h), append(keys, n)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i, n := range keys {
		if hits[i].Charts, err = c.charts(ctx, n); err != nil {
			return nil, err
		}
	}
	return hits, nil
}

// charts folds a video's positions into one row a region.
func (c *Catalog) charts(ctx context.Context, video int64) ([]Chart, error) {
	rows, err := c.queries["charts"].QueryContext(ctx, video)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Chart
	for rows.Next() {
		var region string
		var rank int
		var at sql.NullInt64
		if err := rows.Scan(&region, &rank, &at); err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].Region != region {
			all = append(all, Chart{Region: region, Best: rank})
		}
		last := &all[len(all)-1]
		last.Best, last.Last, last.LastAt = min(last.Best, rank), rank, instant(at)
	}
	return all, rows.Err()
}
