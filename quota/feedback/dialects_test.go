package feedback_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

const (
	noon   = "2026-11-20T12:00:00Z"
	dated  = "Date: " + date + "\n"
	asJSON = dated + "Content-Type: application/json\n"
)

// epoch formats a time after noon as GitHub does.
func epoch(after time.Duration) string { return fmt.Sprint(at(noon).Add(after).Unix()) }

// stop returns a verdict with a cooldown; slow returns one that is retried.
func stop(budget string, wait time.Duration, reason string) quota.Verdict {
	return quota.Verdict{Budget: budget, For: wait, Reason: reason}
}

func slow(budget string, wait time.Duration, reason string) quota.Verdict {
	v := stop(budget, wait, reason)
	v.Transient, v.After = true, time.Microsecond
	return v
}

// guess returns a verdict with a cooldown that doubles up to a length.
func guess(budget string, wait, upTo time.Duration, reason string) quota.Verdict {
	v := slow(budget, wait, reason)
	v.UpTo = upTo
	return v
}

// unexplained returns the verdict on a refusal that says nothing.
func unexplained(budget string, wait, upTo time.Duration, reason string) quota.Verdict {
	v := guess(budget, wait, upTo, reason)
	v.Unexplained = true
	return v
}

// limited returns a verdict whose limit is far from a budget's.
func limited(budget string, limit quota.Units) quota.Verdict {
	return quota.Verdict{LimitOf: budget, Limit: limit}
}

func guessed(units quota.Units) quota.Verdict {
	return quota.Verdict{Settled: true, Undocumented: true, Units: units}
}

func settled(units quota.Units) quota.Verdict { return quota.Verdict{Settled: true, Units: units} }

func transient(after time.Duration) quota.Verdict {
	return quota.Verdict{Transient: true, After: after}
}

// left adds the units left of a budget to a verdict.
func left(v quota.Verdict, budget string, units quota.Units) quota.Verdict {
	v.LeftOf, v.Left = budget, units
	return v
}

func hour(name string, limit quota.Units) quota.Budget {
	return quota.Budget{Account: "my-project", Name: name, Limit: limit, Window: quota.Sliding(time.Hour)}
}

// theirs is of another account.
var theirs = quota.Budget{Account: "another-project", Name: "core", Limit: 5000,
	Window: quota.Sliding(1000 * time.Hour)}

var monthly = quota.Budget{Account: "my-project", Name: "month", Limit: 100_000, Window: quota.Monthly(time.UTC)}

var minutely = quota.Budget{Account: "my-project", Name: "minute", Limit: 60, Window: quota.Sliding(time.Minute)}

// github returns the headers of a response with left calls until reset.
func github(left int, reset time.Duration, more string) string {
	return fmt.Sprintf("%sX-RateLimit-Limit: 5000\nX-RateLimit-Used: %d\nX-RateLimit-Remaining: "+
		"%d\nX-RateLimit-Reset: %s\nX-RateLimit-Resource: core\n%s",
		asJSON, 5000-left, left, epoch(reset), more)
}

func TestDialectsReadTheirResponses(t *testing.T) {
	zone := time.FixedZone("", 60*60)
	for _, test := range dialectTests {
		t.Run(test.dialect+", "+test.name, func(t *testing.T) {
			got := reader(t, test.dialect, feedback.Options{Zone: zone, Budgets: test.budgets, Now: clock(noon)})(call,
				response(test.status, test.header, test.body))
			got.Later = nil // that a cost may come is not what these tests are about
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestSecondaryLimitIsOfGraphQL: in a successful response of GitHub's REST API
// the message is a commit's. Where no request is known, the method decides.
func TestSecondaryLimitIsOfGraphQL(t *testing.T) {
	read := reader(t, "github", feedback.Options{Now: clock(noon)})
	for _, test := range []struct {
		method, path string
		want         quota.Verdict
	}{
		{"graphql", "", guess("", time.Minute, 24*time.Hour, "200 secondary rate limit")},
		{"queries", "/api/graphql", guess("", time.Minute, 24*time.Hour, "200 secondary rate limit")},
		{"repos.get", "", quota.Verdict{}},
		{"repos.get", "/repos/graphql/graphql-js/git/commits/1", quota.Verdict{}},
	} {
		resp := response(200, asJSON, `{"sha":"1","message":"You have exceeded a secondary rate limit"}`)
		if resp.Request.URL.Path = test.path; test.path == "" {
			resp.Request = nil
		}
		if got := read(quota.Call{Account: "my-project", Method: test.method, Units: 1}, resp); !reflect.DeepEqual(got,
			test.want) {
			t.Errorf("%s of %q: got %+v; want %+v", test.method, test.path, got, test.want)
		}
	}
}

// A daily limit whose reset is unknown is tried again after an hour, then
// later.
func TestADailyLimitWithoutZoneIsTriedAfterAnHour(t *testing.T) {
	got := reader(t, "hubspot", feedback.Options{Now: clock(noon)})(call,
		response(429, asJSON, `{"policyName":"DAILY"}`))
	want := stop("", time.Hour, "429 DAILY day")
	want.UpTo = 24 * time.Hour
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// sane verifies what holds for every verdict at noon, whatever the response.
func sane(t *testing.T, got quota.Verdict, budgets []quota.Budget) {
	t.Helper()
	longest := 25*time.Hour + 31*time.Minute // of google's own day
	for _, b := range budgets {
		longest = max(longest, b.Horizon())
	}
	switch {
	case got.For < 0 || got.For > longest:
		t.Errorf("a cooldown of %s: %+v", got.For, got)
	case got.For == 0 && got.Budget != "", got.Never && got.For > 0, got.Never && got.Transient:
		t.Errorf("contradicts itself: %+v", got)
	case got.Transient && got.For > 0 && got.For < time.Second && got.After < time.Microsecond:
		t.Errorf("a busy loop: %+v", got)
	case got.After < 0, got.After > feedback.MaxRetryAfter, got.Units < 0, got.Units > quota.MaxUnits, !got.Settled &&
		got.Units != 0:
		t.Errorf("out of bounds: %+v", got)
	case got.Left < 0, got.LeftOf == "" && got.Left != 0, got.LeftOf != "" && got.Left == 0:
		t.Errorf("left: %+v", got)
	case len(got.Reason) > 200, !utf8.ValidString(got.Reason), strings.ContainsAny(got.Reason, "\x1b\n\r\u202e"):
		t.Errorf("reason %q", got.Reason)
	}
}

// numbers are the headers that hold a number or a timestamp.
var numbers = []string{"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Used",
	"X-RateLimit-Reset", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
	"RateLimit", "RateLimit-Policy", "RateLimit-Cost", "X-RateLimit-Remaining-Tokens", "X-RateLimit-Reset-Tokens",
	"Anthropic-RateLimit-Tokens-Remaining", "Anthropic-RateLimit-Tokens-Reset",
	"X-HubSpot-RateLimit-Daily-Remaining", "X-HubSpot-RateLimit-Remaining", "X-HubSpot-RateLimit-Interval-Milliseconds",
	"Sforce-Limit-Info", "X-Shopify-Shop-Api-Call-Limit"}

// TestMalformedHeadersGiveSaneVerdicts sets each header to malformed values, in
// each dialect.
func TestMalformedHeadersGiveSaneVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("reads thousands of answers one after the other")
	}
	nonsense := []string{"-1", "1e3", "0x10", "1000000000000", "9223372036854775808", "NaN", "Inf", "", "1.5",
		"60, 120", "60\n120", strings.Repeat("9", 4096),
		"Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59Z", "2020-01-01T00:00:00Z", "-5s", "1e9h", "99999999h",
		"api-usage=-1/0", "5/0", "1/2/3", `"a;r=0`, `"a";r=-1;t=-1`, `"a";r=0;t=1e9`, `r=0;t=99999999999`, "0"}
	budgets := []quota.Budget{hour("all", 100)}
	for _, dialect := range feedback.Names() {
		read := reader(t, dialect, feedback.Options{Budgets: budgets, Now: clock(noon)})
		for _, status := range []int{200, 429, 503} {
			for _, value := range nonsense {
				all := http.Header{"Date": {date}}
				for _, name := range numbers {
					one := http.Header{"Date": {date}}
					for line := range strings.SplitSeq(value, "\n") {
						one.Add(name, line)
						all.Add(name, line)
					}
					sane(t, read(call, &http.Response{StatusCode: status, Header: one}), budgets)
				}
				sane(t, read(call, &http.Response{StatusCode: status, Header: all}), budgets)
			}
		}
	}
}

// FuzzDialects reads arbitrary responses in every dialect: nothing panics, and
// every verdict is sane and deterministic.
func FuzzDialects(f *testing.F) {
	for _, test := range dialectTests {
		f.Add(test.status, test.header, test.body)
	}
	budgets := []quota.Budget{hour("all", 100), hour("core", 5000),
		{Account: "my-project", Name: "calls", Limit: 100, Window: quota.Daily(time.UTC), Measure: quota.Calls}}
	f.Fuzz(func(t *testing.T, status int, header, body string) {
		for _, dialect := range feedback.Names() {
			read := reader(t, dialect, feedback.Options{Budgets: budgets, Now: clock(noon)})
			resp := response(status, header, body)
			got := read(call, resp)
			sane(t, got, budgets)
			again := read(call, response(status, header, body))
			if got.Later, again.Later = nil, nil; !reflect.DeepEqual(again, got) {
				t.Errorf("%s: %+v, then %+v", dialect, got, again)
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != body {
				t.Errorf("%s: the body was changed (%v)", dialect, err)
			}
		}
	})
}
