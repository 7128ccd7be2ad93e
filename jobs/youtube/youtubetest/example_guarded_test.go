package youtubetest_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

// A job that spends from budgets: WithEndpoint makes the client charge calls to
// the local YouTube like those to YouTube itself. The third call does not fit.
func Example_guarded() {
	upstream := youtubetest.New(nil)
	srv := httptest.NewServer(upstream)
	defer srv.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	table, err := costs.Parse("costs.yaml", []byte(`
version: 1
account: my-project
api: youtube/v3
hosts: [youtube.googleapis.com]
costs: {search.list: 100}
budgets: [{name: searches, limit: 200, window: 24h}]
`))
	if err != nil {
		log.Fatal(err)
	}
	if table, err = table.WithEndpoint("", srv.URL); err != nil { // an empty name: the only upstream
		log.Fatal(err)
	}
	c, err := client.New(table, &client.Options{State: dir, Replica: filepath.Join(dir, "replica"),
		Ledger: "sqlite:" + filepath.Join(dir, "ration.db")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	httpClient := &http.Client{Transport: c}

	for range 3 {
		resp, err := httpClient.Get(srv.URL + "/youtube/v3/search?part=id&q=music&key=any")
		if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
			fmt.Println("refused:", refused.Short())
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println("the upstream counted", upstream.Total())
	// Output:
	// 200 OK
	// 200 OK
	// refused: searches has 0 of 200 units left, search.list needs 100
	// the upstream counted 200
}
