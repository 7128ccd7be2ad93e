package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/google/go-github/v75/github"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// The preset for GitHub's REST API guards go-github, with a github.yaml of
// three lines: version: 1, preset: github-rest, and account: my-app. The limit
// that an answer reports counts too: here other programs have spent all of the
// hour's calls. go-github would then stop calls by itself, with a
// RateLimitError in this process alone; with DisableRateLimitCheck, all
// processes get a RefusedError.
func Example_goGithub() {
	c, err := client.Open("github.yaml", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	hub := github.NewClient(&http.Client{Transport: c}).WithAuthToken("TOKEN")
	hub.DisableRateLimitCheck = true

	for _, name := range []string{"go", "tools"} {
		repo, _, err := hub.Repositories.Get(context.Background(), "golang", name)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		switch {
		case ok:
			fmt.Println("refused:", refused.Short())
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(repo.GetFullName())
		}
	}
	// Output:
	// golang/go
	// refused: github-hour is in cooldown (200, nothing left of core), read must wait
}
