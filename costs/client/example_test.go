package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

const videos = "https://youtube.googleapis.com/youtube/v3/videos?chart=mostPopular&part=id"

// With the ledger, the prices and the budgets of a costs.yaml, any http.Client
// is guarded.
func ExampleOpen() {
	if err := fetch(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK
}

func fetch(ctx context.Context) error {
	c, err := client.Open("costs.yaml", nil) // the ledger, prices and budgets that the file names
	if err != nil {
		return err
	}
	defer c.Close()
	ctx = quota.WithCaller(ctx, quota.Caller{Lane: "cron", Job: "trending", Region: "IN"})
	req, err := http.NewRequestWithContext(ctx, "GET", videos, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Goog-Api-Key", os.Getenv("YOUTUBE_API_KEY"))
	resp, err := (&http.Client{Transport: c}).Do(req)
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return fmt.Errorf("come back at %s: %w", refused.RetryAt, err)
	} else if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	return nil
}
