package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

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
	c, err := client.Open("github.yaml", &client.Options{Base: localGitHub()}) // without Base, the real one
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

// localGitHub returns a transport to a server that answers like GitHub. It runs
// until the tests end.
func localGitHub() http.RoundTripper {
	return dialing(httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Resource", "core")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		fmt.Fprint(w, `{"full_name": "golang/go"}`)
	})))
}
