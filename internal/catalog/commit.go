package catalog

import (
	"context"
	"database/sql"
	"errors"
	"html"
	"strings"
)

// Commit stores a page and advances its step's checkpoint in one transaction.
// Nothing is stored if it returns an error or ctx is cancelled; to store a page
// that is already paid for, pass context.WithoutCancel(ctx).
//
// Commit is idempotent: committing the last page of a step again changes
// nothing. It returns ErrMoved if another run has advanced the step. The
// first page of a new tick deletes the checkpoints of older ticks, whose
// tokens are stale.
func (c *Catalog) Commit(ctx context.Context, p Page) error {
	if p.Region == "" || p.Step == "" || p.Tick.IsZero() {
		return errors.New("catalog: commit: page without region, tick or step; set all three")
	}
	return c.write(ctx, "commit "+p.Region+" "+p.Step, func(b *transaction) error {
		now := c.now().UnixMilli()
		if err := b.advanceCheckpoint(p, now); err != nil {
			return err
		}
		if err := b.putVideos(p, now); err != nil {
			return err
		}
		b.putChannels(p, now)
		for _, k := range p.Categories {
			b.exec("put_category", p.Region, k.ID, cleanText(k.Title), now)
		}
		b.dropFailures(p)
		return b.putPage(p, now)
	})
}

// advanceCheckpoint moves the checkpoint past the page, unless it already is.
func (b *transaction) advanceCheckpoint(p Page, now int64) error {
	tick := p.Tick.UnixMilli()
	var pages int
	err := b.queryRow("checkpoint_pages", p.Region, tick, p.Step).Scan(&pages)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case p.Number == pages-1:
		return nil
	case p.Number != pages:
		return ErrMoved
	}
	b.exec("put_pass", p.Region, tick, now)
	b.exec("drop_older_checkpoints", p.Region, tick)
	b.exec("put_checkpoint", p.Region, tick, p.Step, p.Next, len(p.Videos), p.Done, now)
	return nil
}

// putVideos stores the page's videos and, for a chart, their positions. The
// rank of a video without an id stays empty.
func (b *transaction) putVideos(p Page, now int64) error {
	for i, v := range p.Videos {
		if v.ID == "" {
			continue
		}
		n, err := b.putVideo(v, p.Snippets, now)
		if err != nil {
			return err
		}
		b.exec("put_sighting", n, p.Region, now)
		if p.FirstRank == 0 {
			continue
		}
		b.exec("put_position", p.Region, p.Step, p.Tick.UnixMilli(), p.FirstRank+i, n, now)
	}
	if p.FirstRank > 0 && p.Done {
		last := p.FirstRank + len(p.Videos) - 1
		b.exec("cut_chart", p.Region, p.Step, p.Tick.UnixMilli(), last)
	}
	return nil
}

func (b *transaction) putVideo(v Video, snippet bool, now int64) (n int64, err error) {
	title := v.Title
	if snippet {
		// search.list escapes titles only (as in answers recorded by
		// python-youtube's tests); videos.list escapes nothing.
		title = html.UnescapeString(title)
	}
	tags := make([]string, len(v.Tags))
	for i, t := range v.Tags {
		tags[i] = strings.ReplaceAll(cleanText(t), "\n", " ")
	}
	err = b.queryRow("put_video", v.ID, cleanText(title), cleanText(v.Description), v.ChannelID,
		cleanText(v.ChannelTitle), v.CategoryID,
		millis(v.PublishedAt), strings.Join(tags, "\n"), v.Views, v.Likes, v.Comments, !snippet, now).Scan(&n)
	return n, err
}

// putChannels stores the page's channels and ends the claims on them.
func (b *transaction) putChannels(p Page, now int64) {
	put := func(ch Channel, missing bool) {
		b.exec("put_channel", ch.ID, cleanText(ch.Title), ch.Subscribers, ch.Views, ch.Videos, missing, now)
		b.exec("release_claim", ch.ID)
	}
	for _, ch := range p.Channels {
		put(ch, false)
	}
	for _, id := range p.MissingChannels {
		put(Channel{ID: id}, true)
	}
}

// cleanText makes text valid UTF-8 without NUL, at which C strings end.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", " ")
}
