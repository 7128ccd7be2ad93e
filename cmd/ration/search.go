package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/jobs"
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
			q.Text, q.Region = strings.Join(args, " "), strings.ToUpper(q.Region)
			if len(q.Region) == 2 {
				if err := jobs.CheckRegionCode(q.Region); err != nil {
					return &usageError{fmt.Errorf("--region: %w", err)}
				}
			}
			return a.search(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.Region, "region", "", "only videos found by this region's passes")
	durationflag.Var(cmd.Flags(), &q.MaxAge, "max-age", "only videos published this recently: 24h, 7d; 0 means any age")
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
		return a.writeJSON(map[string]any{"hits": append([]catalog.Hit{}, hits...)})
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
		t.Row(h.ID, terminal.Narrow(h.Title, 60), terminal.Narrow(h.ChannelTitle, 24), views, published, strings.Join(charts, ", "))
	}
	if len(hits) == 0 {
		fmt.Fprintln(a.stderr, "nothing found")
		return nil
	}
	t.Print()
	return nil
}
