package catalog

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// maxMatches is the most matches that one search ranks, so that a common word
// costs the same in any catalogue.
const maxMatches = 5000

const defaultHits = 20

// URL returns the URL of the video's page.
func (v Video) URL() string { return "https://www.youtube.com/watch?v=" + url.QueryEscape(v.ID) }

// Search finds videos by the words of their title, description, channel and
// tags, best first. A word in the title weighs ten times as much as one in the
// description. Only the 5,000 matches that were first seen most recently are
// ranked. Equal hits are ordered by publication, newest first, then by id.
//
// Every text is a valid query; see Query.Text. Search returns ErrEmptyQuery if
// it has no word.
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
	hits, err := c.findVideos(ctx, expr, q.Region, since, min(limit, c.matches))
	return hits, c.wrap("search", err)
}

func (c *Catalog) findVideos(ctx context.Context, expr, region string, since time.Time, limit int) ([]Hit, error) {
	rows, err := c.queries["search"].QueryContext(ctx, expr, region, millis(since), c.matches, limit)
	var hits []Hit
	var keys []int64
	err = eachRow(rows, err, func() error {
		var h Hit
		var n int64
		var tags string
		err := rows.Scan(&n, &h.ID, &h.Title, &h.Description, &h.ChannelID, &h.ChannelTitle, &h.CategoryID,
			(*stamp)(&h.PublishedAt), &tags, &h.Views, &h.Likes, &h.Comments, (*stamp)(&h.FetchedAt), &h.Category)
		if tags != "" {
			h.Tags = strings.Split(tags, "\n")
		}
		hits, keys = append(hits, h), append(keys, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, n := range keys {
		if hits[i].Charts, err = c.readCharts(ctx, n); err != nil {
			return nil, err
		}
	}
	return hits, nil
}

// readCharts returns a Chart for each region in which a video has positions.
func (c *Catalog) readCharts(ctx context.Context, video int64) ([]Chart, error) {
	rows, err := c.queries["charts"].QueryContext(ctx, video)
	var all []Chart
	err = eachRow(rows, err, func() error {
		var region string
		var rank int
		var at time.Time
		err := rows.Scan(&region, &rank, (*stamp)(&at))
		if len(all) == 0 || all[len(all)-1].Region != region {
			all = append(all, Chart{Region: region, Best: rank})
		}
		chart := &all[len(all)-1]
		chart.Best = min(chart.Best, rank)
		chart.Last, chart.LastAt = rank, at
		return err
	})
	return all, err
}
