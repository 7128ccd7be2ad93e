package client

import (
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// TestEveryDialectCanBeNamed reads a costs.yaml with each dialect that package
// feedback knows, and one that it does not.
func TestEveryDialectCanBeNamed(t *testing.T) {
	for _, name := range append(feedback.Names(), "unknown") {
		table, err := costs.Parse("costs.yaml",
			[]byte("version: 1\nupstream: x\naccount: y\nfeedback: "+name+
				"\ncosts: {m: 1}\nbudgets: [{name: all, limit: 10, window: 24h}]\n"))
		if name == "unknown" {
			if err == nil || !strings.Contains(err.Error(), strings.Join(feedback.Names()[:3], ", ")) {
				t.Errorf("%s: %v; want the names that are known", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := newFeedback(table, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheHostOfAnAnswerTellsItsDialect has two upstreams on one account: the
// host of the answer says which of them spoke.
func TestTheHostOfAnAnswerTellsItsDialect(t *testing.T) {
	const text = `version: 1
upstream: other
account: one
hosts: ["api.example.com:8443"]
routes: {"GET /{path...}": m}
feedback: reddit
costs: {m: 1}
budgets: [{name: more, limit: 10, window: 24h}]
---
version: 1
upstream: youtube
account: one
api: youtube/v3
hosts: [youtube.googleapis.com]
not_modified_units: 0
costs: {videos.list: 1}
budgets: [{name: all, limit: 10, window: 24h}]
`
	table, err := costs.Parse("costs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if table, err = table.WithEndpoint("", "http://127.0.0.1:7801"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	said, err := newFeedback(table, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	call := quota.Call{Account: "one", Method: "videos.list", Units: 1}
	answer := func(host string, status int) *http.Response {
		return &http.Response{StatusCode: status,
			Header:  http.Header{"Retry-After": {"7"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"90"}},
			Request: &http.Request{URL: &url.URL{Scheme: "http", Host: host}}}
	}
	for _, host := range []string{"youtube.googleapis.com", "YouTube.googleapis.com:80", "127.0.0.1:7801"} {
		want := quota.Verdict{Free: true, For: 90 * time.Second, Budget: "", Reason: "304, nothing left"}
		if got := said(call, answer(host, 304)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, not modified: %+v; want %+v", host, got, want)
		}
	}
	if got := said(call, answer("api.example.com:8443", 200)); got.For != 90*time.Second {
		t.Errorf("the other upstream: %+v; want a cooldown of 90 s", got)
	}
	if got := said(call, answer("youtube.googleapis.com", 429)); got.For != 7*time.Second ||
		got.Reason != "429 Too Many Requests" {
		t.Errorf("too fast: %+v", got)
	}
	if got := said(quota.Call{Account: "two"}, answer("x", 429)); !reflect.DeepEqual(got, quota.Verdict{}) {
		t.Errorf("an account that is not there: %+v", got)
	}
}

// TestPresetsCoolTheirBudgets lets the upstreams of the presets say which limit
// is spent: only the budget that stands for it gets a cooldown.
func TestPresetsCoolTheirBudgets(t *testing.T) {
	const (
		youtube = "preset: youtube/2026-06"
		hubspot = "preset: {name: hubspot, variant: free}\nresets: {day: Europe/Berlin}\nbudgets: [{name: " +
			"hubspot-day, window: {day: Europe/Berlin}}]"
		spent    = `{"error":{"errors":[{"reason":"quotaExceeded"}]}}`
		searches = `{"error":{"message":"Quota exceeded for quota metric 'Search Queries' and limit 'Search Queries ` +
			`per day'"}}`
	)
	searched := func(resource, limit string) http.Header {
		return http.Header{"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"40"},
			"X-Ratelimit-Resource": {resource}}
	}
	left := func(name, value string) http.Header {
		return http.Header{"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Reset": {"600"},
			"X-Ratelimit-Resource": {"core"}, name: {value}}
	}
	for _, c := range []struct {
		lines, method string
		status        int
		header        http.Header
		body          string
		budget, left  string
	}{
		{youtube, "videos.list", 403, nil, spent, "youtube-day", ""},
		{youtube, "search.list", 429, nil, searches, "youtube-search", ""},
		{"preset: youtube/legacy", "search.list", 403, nil, spent, "", ""},
		{"preset: github-rest", "read", 200, left("X-Ratelimit-Remaining", "0"), "", "github-hour", ""},
		{"preset: github-rest", "read", 200, left("X-Ratelimit-Remaining", "70"), "", "", "github-hour"},
		{"preset: github-rest", "search", 200, searched("search", "30"), "", "github-search", ""},
		{"preset: github-rest", "search.code", 200, searched("code_search", "10"), "", "github-code-search", ""},
		{"preset: {name: github-rest, variant: anonymous}", "search", 200, searched("search", "10"), "",
			"github-search", ""},
		{"preset: github-rest", "read", 403, left("X-Ratelimit-Remaining", "70"),
			`{"message":"You have exceeded a secondary rate limit"}`, "", ""},
		{hubspot, "call", 429, nil, `{"policyName":"DAILY"}`, "hubspot-day", ""},
		{hubspot, "call", 429, nil, `{"policyName":"TEN_SECONDLY_ROLLING"}`, "hubspot-10s", ""},
		{hubspot, "call", 200, http.Header{"X-Hubspot-Ratelimit-Remaining": {"0"},
			"X-Hubspot-Ratelimit-Interval-Milliseconds": {"9000"}}, "", "hubspot-10s", ""},
		{"preset: salesforce\nhosts: [a.example]\nbudgets: [{name: salesforce, limit: 115000}]", "call", 200,
			http.Header{"Sforce-Limit-Info": {"api-usage=114000/115000"}}, "", "", "salesforce"},
		{"preset: {name: shopify-graphql, variant: plus}\nhosts: [a.example]", "graphql", 200,
			http.Header{"Content-Type": {"application/json"}}, `{"errors":[{"message":"Throttled"}]}`, "shopify", ""},
		{"preset: strava", "call", 429, http.Header{"X-Ratelimit-Limit": {"200,2000"}, "X-Ratelimit-Usage": {"9,2001"}},
			"", "strava-overall-day", ""},
		{"preset: airtable", "call", 429, nil, `{"errors":[{"error":"RATE_LIMIT_REACHED"}]}`, "airtable-base", ""},
		{"preset: xero", "call", 429, http.Header{"X-Rate-Limit-Problem": {"minute"}, "Retry-After": {"20"}}, "",
			"xero-minute", ""},
		{"preset: {name: monday, variant: pro}", "graphql", 200, nil, `{"error_code":"ComplexityException"}`,
			"monday-complexity", ""},
		{"preset: gmail", "messages.get", 429, nil,
			`{"error":{"message":"User-rate limit exceeded. Retry after 2040-01-01T00:00:00Z"}}`, "gmail-user", ""},
		{"preset: discord", "channels", 200,
			http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After": {"1.5"}}, "", "discord-channels",
			""},
		{"preset: google-analytics-data", "report", 429, nil,
			`{"error":{"status":"RESOURCE_EXHAUSTED","message":"Exhausted property tokens per day."}}`, "ga4-day", ""},
		{"preset: slack", "conversations.list", 429, http.Header{"Retry-After": {"30"}}, "", "slack-list", ""},
	} {
		table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: one\n"+c.lines+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		said, err := newFeedback(table, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := said(quota.Call{Account: "one", Method: c.method, Units: 1},
			&http.Response{StatusCode: c.status, Header: c.header, Body: io.NopCloser(strings.NewReader(c.body))})
		if got.Budget != c.budget || (got.For == 0) != (c.left != "") || got.LeftOf != c.left {
			t.Errorf("%.40q, %s %d: %+v; want a cooldown of %q, or what is left of %q", c.lines, c.method, c.status,
				got, c.budget, c.left)
		}
	}
}

// TestRefusalThatNoRuleExplainsIsKept: it is counted, without the values of
// headers, and one that says how long is not kept.
func TestRefusalThatNoRuleExplainsIsKept(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: one\nhosts: [a.example]\n"+
		"routes: {\"GET /{path...}\": read}\ncosts: {read: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	read, err := newFeedback(table, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{state: t.TempDir()}
	keep := c.keepingUnexplained(read)
	call := quota.Call{Account: "one", Method: "read", Units: 1}
	for _, header := range []http.Header{{"X-Secret": {"s3cret"}}, {}, {"Retry-After": {"7"}}} {
		body := io.NopCloser(strings.NewReader(`{"message":"Slow down, key=s3cret"}`))
		keep(call, &http.Response{StatusCode: 429, Header: header, Body: body})
	}
	kept := c.Unexplained()
	if len(kept) != 1 || kept[0].Count != 2 || kept[0].Status != 429 ||
		strings.Contains(kept[0].Reason+strings.Join(kept[0].Headers, " "), "s3cret") {
		t.Errorf("%+v; want one refusal, twice, without its secrets", kept)
	}
	c.options.Now = func() time.Time { return time.Now().Add(unexplainedTime) }
	if kept := c.Unexplained(); len(kept) != 0 {
		t.Errorf("a week later: %+v; want none", kept)
	}
}
