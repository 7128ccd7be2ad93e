package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/jobs/catalog"
)

func (a *app) searchCommand() *cobra.Command {
	var q catalog.Query
	cmd := &cobra.Command{
		Use:   "search QUERY…",
		Short: "Search the videos fetched so far; costs no units",
		Long: `Search looks through the titles, descriptions, channels and tags of the videos
in the local catalogue, best match first. It makes no call and costs no units.

` + exitCodes(exitConfig),
		Example: "  ration search football highlights\n  ration search '\"official video\"' --region IN --max-age 7d --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Limit < 1 {
				return &usageError{errors.New("--limit: give 1 or more")}
			}
			if err := checkRegion(q.Region, nil); err != nil {
				return err
			}
			q.Text, q.Region = strings.Join(args, " "), strings.ToUpper(q.Region)
			return a.search(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.Region, "region", "", "only videos found by this region's passes")
	durationVar(cmd.Flags(), &q.MaxAge, "max-age", "only videos published this recently: 24h, 7d; 0 means any age")
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "return at most this many hits")
	return cmd
}

func (a *app) search(ctx context.Context, q catalog.Query) error {
	dir, err := a.state()
	if err != nil {
		return err
	}
	c, err := catalog.OpenExisting(filepath.Join(dir, "catalog.db"), &catalog.Options{Now: a.now})
	if err != nil {
		return err
	}
	defer c.Close()
	hits, err := c.Search(ctx, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.searchJSON(hits)
	}
	if down := a.ledgerState().String(); down != "" {
		fmt.Fprintln(a.stderr, "ration: the ledger is", down)
	}
	t := a.table("id", "title", "channel", "views", "published", "charts")
	for _, h := range hits {
		var views any = "-"
		if h.Views != nil {
			views = *h.Views
		}
		published := "-"
		if !h.PublishedAt.IsZero() {
			published = h.PublishedAt.Format(time.DateOnly)
		}
		var charts []string
		for _, c := range h.Charts {
			charts = append(charts, fmt.Sprintf("%s #%d", c.Region, c.Best))
		}
		t.Row(h.ID, narrow(h.Title, 60), narrow(h.ChannelTitle, 24), views, published, strings.Join(charts, ", "))
	}
	if len(hits) > 0 {
		t.Print()
	}
	if len(hits) == 0 {
		fmt.Fprintln(a.stderr, "nothing found")
	}
	return nil
}

// narrow cuts a text from outside to so many runes, fit for a terminal.
func narrow(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if q := fmt.Sprintf("%q", r); len(q) > 2 && q[1] == '\\' && r != '\'' && r != '\\' {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

func (a *app) searchJSON(hits []catalog.Hit) error {
	type chart struct {
		Region string    `json:"region"`
		Best   int       `json:"best"`
		Last   int       `json:"last"`
		LastAt time.Time `json:"last_at"`
	}
	type hit struct {
		ID        string     `json:"id"`
		URL       string     `json:"url"`
		Title     string     `json:"title"`
		Channel   string     `json:"channel"`
		Category  *string    `json:"category"`
		Views     *int64     `json:"views"`
		Likes     *int64     `json:"likes"`
		Comments  *int64     `json:"comments"`
		Published *time.Time `json:"published"`
		FetchedAt time.Time  `json:"fetched_at"`
		Charts    []chart    `json:"charts"`
	}
	out := struct {
		Hits []hit `json:"hits"`
	}{Hits: []hit{}}
	for _, h := range hits {
		one := hit{ID: h.ID, URL: h.URL(), Title: h.Title, Channel: h.ChannelTitle, Views: h.Views, Likes: h.Likes, Comments: h.Comments,
			Published: instant(h.PublishedAt), FetchedAt: h.FetchedAt.UTC(), Charts: []chart{}}
		if h.Category != "" {
			one.Category = &h.Category
		}
		for _, c := range h.Charts {
			one.Charts = append(one.Charts, chart{c.Region, c.Best, c.Last, c.LastAt.UTC()})
		}
		out.Hits = append(out.Hits, one)
	}
	return a.writeJSON(out)
}
