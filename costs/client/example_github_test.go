package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/go-github/v75/github"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
)

// The preset for GitHub's REST API guards go-github. The limit that an answer
// reports counts too: here other programs have spent 1,679 of the hour's calls.
func Example_goGithub() {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\npreset: github-rest\naccount: my-app\n"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(table, &client.Options{MaxWait: time.Minute, Base: localGitHub()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	hub := github.NewClient(&http.Client{Transport: c}).WithAuthToken("TOKEN")

	ctx := context.Background()
	repo, _, err := hub.Repositories.Get(ctx, "golang", "go")
	if err != nil {
		log.Fatal(err)
	}
	c.Guard().Drain(ctx) // external usage is recorded in the background
	balances, err := c.Guard().Balances(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(repo.GetFullName(), "-", balances[0].Used, "of", balances[0].Budget.Limit, "used")
	// Output: golang/go - 1680 of 5000 used
}

// localGitHub returns a transport to a server that answers like GitHub. It runs
// until the tests end.
func localGitHub() http.RoundTripper {
	return dialing(httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "3320")
		w.Header().Set("X-RateLimit-Resource", "core")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		fmt.Fprint(w, `{"full_name": "golang/go"}`)
	})))
}
