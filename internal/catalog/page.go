package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// KnownPage returns the newest committed page of a region's step and token that
// has an ETag, or the zero Page if there is none. If the upstream answers that
// it is unchanged, commit it with a new Tick, Number, FirstRank and Done.
func (c *Catalog) KnownPage(ctx context.Context, region, step, token string) (Page, error) {
	var content []byte
	err := c.queries["known_page"].QueryRowContext(ctx, region, step, token).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return Page{}, nil
	}
	var p Page
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	return p, c.wrap("read a known page of "+region+" "+step, err)
}

// putPage stores a page that has an ETag, for KnownPage. It replaces the page
// that its step had at the same number.
func (b *transaction) putPage(p Page, now int64) error {
	if p.ETag == "" {
		return nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	b.exec("put_page", p.Region, p.Step, p.Number, p.Token, content, now)
	return nil
}
