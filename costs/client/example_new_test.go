package client_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// A test server takes the place of the upstream, and its calls are charged in
// a folder that goes with the test.
func ExampleNew() {
	srv := httptest.NewServer(youtubetest.New(nil))
	defer srv.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := fetchFrom(srv.URL, dir); err != nil {
		log.Fatal(err)
	}
	// Output: 200 OK, 1 of 9500 used
}

func fetchFrom(endpoint, dir string) error {
	table, err := costs.Load("costs.yaml")
	if err != nil {
		return err
	}
	if table, err = table.WithEndpoint("", endpoint); err != nil { // "": the only upstream
		return err
	}
	c, err := client.New(table, &client.Options{State: dir, Replica: dir, Ledger: "sqlite:" + dir + "/ration.db"})
	if err != nil {
		return err
	}
	defer c.Close()
	httpClient := &http.Client{Transport: c}
	resp, err := httpClient.Get(endpoint + "/youtube/v3/videos?chart=mostPopular&part=id&key=any")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	balances, err := c.Guard().Balances(resp.Request.Context())
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d of %d used\n", resp.Status, balances[0].Used, balances[0].Budget.Limit)
	return nil
}
