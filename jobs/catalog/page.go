package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// KnownPage returns the newest page that was committed for a region's step and
// token, with the ETag under which the upstream may say that it has not
// changed. Commit it again with its pass's Tick, Number, FirstRank and Done. The zero Page,
// without an ETag, is none.
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

// keepPage keeps a page that has an ETag, in place of the one that its step had
// at that number.
func (b *batch) keepPage(p Page, now int64) error {
	if p.ETag == "" {
		return nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = b.exec("put_page", p.Region, p.Step, p.Number, p.Token, content, now)
	return err
}
