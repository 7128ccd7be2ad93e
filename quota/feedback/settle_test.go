package feedback_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// upstreams answer the n-th request and report its cost, sometimes less and
// sometimes more than the estimate of 100.
var upstreams = []struct {
	dialect string
	path    string
	answer  func(w http.ResponseWriter, n int64) (cost int64)
}{
	{"shopify", "/admin/api/2026-10/graphql.json", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w,
			`{"data":{"shop":{}},"extensions":{"cost":{"requestedQueryCost":100,"actualQueryCost":%d,`+
				`"throttleStatus":{"maximumAvailable":2000.0,"currentlyAvailable":%d,"restoreRate":100.0}}}}`, n*7,
			2000-n)
		return n * 7
	}},
	{"github", "/graphql", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"data":{"rateLimit":{"limit":500000,"cost":%d,"remaining":499999,"resetAt":"2030-01-01T00:00:00Z"}}}`, n)
		return n
	}},
	{"openai", "/v1/chat/completions", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"choices":[{"message":{"content":%q}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,`+
				`"total_tokens":%d}}`, strings.Repeat("x", int(n)*3000), 3*n, 8*n, 11*n)
		return 11 * n
	}},
	{"openai", "/v1/chat/completions", func(w http.ResponseWriter, _ int64) int64 { // a stream without a cost
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"usage\":null}\n\n")
		return 100
	}},
	{"anthropic", "/v1/messages", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"content":[],"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,`+
				`"cache_read_input_tokens":9999,"output_tokens":%d}}`, n, 2*n, 6*n)
		return 9 * n
	}},
	{"generic", "/x", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=100000;t=60;cost=%d`, 100+20*n))
		return 100 + 20*n
	}},
	{"generic", "/x", func(w http.ResponseWriter, n int64) int64 {
		w.Header().Set("RateLimit-Cost", fmt.Sprint(100+20*n))
		w.WriteHeader(http.StatusNotFound) // a failed request costs too
		return 100 + 20*n
	}},
	{"google", "/x", func(w http.ResponseWriter, n int64) int64 { // a 304 costs not_modified_units
		if n%2 == 0 {
			w.WriteHeader(http.StatusNotModified)
			return 3
		}
		return 100
	}},
}

// TestChargesAddUpToTheUpstreamsCount charges an estimate for each call of 8
// concurrent callers, and compares the total with the upstream's own.
func TestChargesAddUpToTheUpstreamsCount(t *testing.T) {
	for _, u := range upstreams {
		t.Run(u.dialect+u.path, func(t *testing.T) {
			var hits, counted, reported atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				counted.Add(u.answer(w, hits.Add(1)))
			}))
			defer server.Close()
			budget := hour("all", 100_000)
			client := clientOf(t, []quota.Budget{budget}, &quota.Transport{
				Charged: func(_ quota.Call, _ int, units quota.Units) { reported.Add(int64(units)) },
				Report: func(_ quota.Call, err error) {
					if _, differs := errors.AsType[*quota.LimitError](err); !differs { // GitHub's limit differs
						t.Error(err)
					}
				},
				Feedback: reader(t, u.dialect,
					feedback.Options{Budgets: []quota.Budget{budget},
						NotModified: func(quota.Call) quota.Units { return 3 }})})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 4 {
						resp, err := client.Post(server.URL+u.path, "application/json", strings.NewReader("{}"))
						if err != nil {
							t.Error(err)
							return
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
			if got := used(t, client)[0]; int64(got) != counted.Load() || reported.Load() != counted.Load() ||
				hits.Load() != 32 {
				t.Errorf("the ledger holds %d units and %d were reported, the upstream counted %d in %d requests", got,
					reported.Load(), counted.Load(), hits.Load())
			}
		})
	}
}

// TestAGETIsSentAgainAndAPOSTNever resends a GET once the upstream has
// recovered or its short wait is over, and charges every attempt. A POST is
// never resent.
func TestAGETIsSentAgainAndAPOSTNever(t *testing.T) {
	for _, c := range []struct {
		dialect, verb string
		status        int
		header        string
		hits          int64
	}{
		{"anthropic", "GET", 529, "", 2},
		{"generic", "GET", 503, "", 2},
		{"generic", "GET", 429, "1", 2},
		{"generic", "GET", 429, "3600", 1}, // beyond MaxWait
		{"slack", "GET", 429, "1", 2},
		{"anthropic", "POST", 529, "", 1},
		{"openai", "POST", 429, "1", 1},
	} {
		t.Run(fmt.Sprintf("%s %s %d %s", c.dialect, c.verb, c.status, c.header), func(t *testing.T) {
			t.Parallel()
			var hits atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if hits.Add(1) == 1 {
					if c.header != "" {
						w.Header().Set("Retry-After", c.header)
					}
					w.WriteHeader(c.status)
				}
			}))
			defer server.Close()
			budget := quota.Budget{Account: "my-project", Name: "all", Limit: 1000,
				Window: quota.Sliding(24 * time.Hour)}
			client := clientOf(t, []quota.Budget{budget}, &quota.Transport{Retries: 2, MaxWait: 30 * time.Second,
				Base:     &http.Transport{}, // a server that closes also closes those of the default one
				Feedback: reader(t, c.dialect, feedback.Options{Budgets: []quota.Budget{budget}})})
			req, _ := http.NewRequest(c.verb, server.URL, nil)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			units := used(t, client)[0]
			isCharged := hits.Load() == c.hits && units == quota.Units(100*c.hits)
			if !isCharged || (resp.StatusCode == 200) != (c.hits == 2) {
				t.Errorf("%d requests, %d units, status %d; want %d requests, each charged", hits.Load(),
					units, resp.StatusCode, c.hits)
			}
		})
	}
}
