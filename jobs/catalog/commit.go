package catalog

import (
	"context"
	"database/sql"
	"errors"
	"html"
	"strings"
)

// Commit stores a page and moves its step's checkpoint, in one transaction.
//
// A page may be committed again, as after a crash that hid the answer: the
// same rows, the same checkpoint. ErrMoved when another run has worked on the
// step. The first page of a new tick drops the checkpoints of older ones: their
// tokens point into another hour's chart.
//
// A cancelled context commits nothing; a run that is told to stop gives a page
// that it has already paid for a context of its own (context.WithoutCancel).
func (c *Catalog) Commit(ctx context.Context, p Page) error {
	if p.Region == "" || p.Step == "" || p.Tick.IsZero() {
		return errors.New("catalog: commit: a page needs its region, tick and step; set all three")
	}
	return c.wrap("commit "+p.Region+" "+p.Step, c.write(ctx, func(b *batch) error {
		now := c.now().UnixMilli()
		if err := b.advance(p, now); err != nil {
			return err
		}
		if err := b.putVideos(p, now); err != nil {
			return err
		}
		if err := b.putChannels(p, now); err != nil {
			return err
		}
		for _, k := range p.Categories {
			if _, err := b.exec("put_category", p.Region, k.ID, clean(k.Title), now); err != nil {
				return err
			}
		}
		return b.keepPage(p, now)
	}))
}

// advance moves the checkpoint past the page, unless it is there already.
func (b *batch) advance(p Page, now int64) error {
	tick := p.Tick.UnixMilli()
	var pages int
	err := b.row("checkpoint_pages", p.Region, tick, p.Step).Scan(&pages)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case p.Number == pages-1:
		return nil
	case p.Number != pages:
		return ErrMoved
	}
	if _, err := b.exec("put_pass", p.Region, tick, now); err != nil {
		return err
	}
	if _, err := b.exec("drop_older_checkpoints", p.Region, tick); err != nil {
		return err
	}
	_, err = b.exec("put_checkpoint", p.Region, tick, p.Step, p.Next, len(p.Videos), p.Done, now)
	return err
}

// putVideos stores the page's videos, and their chart positions if it is a
// chart. A video without an id leaves its rank empty.
func (b *batch) putVideos(p Page, now int64) error {
	for i, v := range p.Videos {
		if v.ID == "" {
			continue
		}
		n, err := b.putVideo(v, p.Snippets, now)
		if err != nil {
			return err
		}
		if _, err := b.exec("put_sighting", n, p.Region, now); err != nil {
			return err
		}
		if p.FirstRank == 0 {
			continue
		}
		if _, err := b.exec("put_position", p.Region, p.Step, p.Tick.UnixMilli(), p.FirstRank+i, n, now); err != nil {
			return err
		}
	}
	if p.FirstRank > 0 && p.Done {
		last := p.FirstRank + len(p.Videos) - 1
		_, err := b.exec("cut_chart", p.Region, p.Step, p.Tick.UnixMilli(), last)
		return err
	}
	return nil
}

func (b *batch) putVideo(v Video, snippet bool, now int64) (n int64, err error) {
	title := v.Title
	if snippet {
		// search.list escapes titles and nothing else (recorded answers of
		// python-youtube's tests, 2026-11-20); videos.list escapes nothing.
		title = html.UnescapeString(title)
	}
	tags := make([]string, len(v.Tags))
	for i, t := range v.Tags {
		tags[i] = strings.ReplaceAll(clean(t), "\n", " ")
	}
	err = b.row("put_video", v.ID, clean(title), clean(v.Description), v.ChannelID, clean(v.ChannelTitle), v.CategoryID,
		millis(v.PublishedAt), strings.Join(tags, "\n"), v.Views, v.Likes, v.Comments, !snippet, now).Scan(&n)
	return n, err
}

// putChannels stores the page's channels and ends the claims on them.
func (b *batch) putChannels(p Page, now int64) error {
	for _, ch := range p.Channels {
		if _, err := b.exec("put_channel", ch.ID, clean(ch.Title), ch.Subscribers, ch.Views, ch.Videos, false, now); err != nil {
			return err
		}
		if _, err := b.exec("release_claim", ch.ID); err != nil {
			return err
		}
	}
	for _, id := range p.MissingChannels {
		if _, err := b.exec("put_channel", id, "", nil, nil, nil, true, now); err != nil {
			return err
		}
		if _, err := b.exec("release_claim", id); err != nil {
			return err
		}
	}
	return nil
}

// clean keeps text from outside storable: valid UTF-8, and no NUL, at which C
// strings end.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", " ")
}
