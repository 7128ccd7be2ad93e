package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/cli"
)

func (a *app) searchCommand() *cobra.Command {
	var q catalog.Query
	cmd := &cobra.Command{
		Use:   "search QUERY…",
		Short: "Search the videos fetched so far; costs no units",
		Long: `Search looks through the titles, descriptions, channels and tags of the videos
in the local catalogue, best match first. It makes no call and costs no units.

` + exitCodes(exitConfig),
		Example: "  ration search football highlights\n  ration search '\"official video\"' --region IN --max-age " +
			"7d --json",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			if err := cli.CheckSearch(&q); err != nil {
				return &cli.Error{Err: fmt.Errorf("--%w", err)}
			}
			return a.search(cmd.Context(), q)
		},
	}
	defineSearch(cmd.Flags(), &q)
	return cmd
}

func defineSearch(flags *pflag.FlagSet, q *catalog.Query) {
	flags.StringVar(&q.Region, "region", "", "only videos found by this region's passes")
	cli.DurationVar(flags, &q.MaxAge, "max-age", "only videos published this recently: 24h, 7d; 0 means any age")
	flags.IntVar(&q.Limit, "limit", 20, "return at most this many hits")
}

func (a *app) search(ctx context.Context, q catalog.Query) error {
	found, err := cli.Search(ctx, a.setup(), q)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(found)
	}
	if down := a.setup().LedgerState().String(); down != "" {
		fmt.Fprintln(a.stderr, "ration: the ledger is", down)
	}
	t := a.table("id", "title", "channel", "views", "published", "charts")
	for _, h := range found.Hits {
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
		t.Row(h.ID, cli.Narrow(h.Title, 60), cli.Narrow(h.ChannelTitle, 24), views, published,
			strings.Join(charts, ", "))
	}
	if len(found.Hits) == 0 {
		fmt.Fprintln(a.stderr, "nothing found")
		return nil
	}
	t.Print()
	return nil
}
