package jobs_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// A test of a fetch job: the calls of all regions go to a local YouTube, with
// the upstream's prices, and the server reports what they cost.
func ExampleFetcher() {
	upstream := youtubetest.New(nil)
	srv := httptest.NewServer(upstream)
	defer srv.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	table, err := costs.Load("../costs.yaml")
	if err != nil {
		log.Fatal(err)
	}
	if table, err = table.WithEndpoint("", srv.URL); err != nil { // an empty name: the only upstream
		log.Fatal(err)
	}
	config, err := jobs.Parse("regions.yaml",
		[]byte("version: 1\nschedule: \"@monthly\"\nfetch: [trending: {pages: 2}]\nregions: {IN: {}, GB: {}}\n"),
		table.CheckFetched)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(table, &client.Options{State: dir, Replica: filepath.Join(dir, "replica"),
		Ledger: "sqlite:" + filepath.Join(dir, "ration.db")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	videos, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer videos.Close()

	ctx := context.Background()
	fetcher := &jobs.Fetcher{Client: c, Catalog: videos, Config: config,
		Key: func() (string, error) { return "any", nil }, Endpoint: srv.URL}
	runner, err := fetcher.NewRunner(ctx)
	if err != nil {
		log.Fatal(err)
	}
	report, err := runner.Run(ctx, config.Regions)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Outcome, "for", report.Units, "units; the upstream counted", upstream.Total())
	// Output: complete for 4 units; the upstream counted 4
}
