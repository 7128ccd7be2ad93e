package feedback_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// upstreamOf is an upstream in memory that always sends the same response.
type upstreamOf struct {
	status int
	header http.Header
	body   string
	hits   int
}

func (u *upstreamOf) RoundTrip(r *http.Request) (*http.Response, error) {
	u.hits++
	return &http.Response{StatusCode: u.status, Header: u.header.Clone(), Body: io.NopCloser(strings.NewReader(u.body)),
		ContentLength: int64(len(u.body)), Request: r}, nil
}

// TestLongRetryAfterOn503IsASharedCooldown answers every error's status with a
// Retry-After, in every dialect: one call reaches the upstream, and the others,
// of two processes, learn when to come back.
func TestLongRetryAfterOn503IsASharedCooldown(t *testing.T) {
	budgets := []quota.Budget{{Account: "my-project", Name: "minute", Limit: 600, Window: quota.Sliding(time.Minute)}}
	for _, dialect := range feedback.Names() {
		if testing.Short() && dialect != "generic" {
			continue // hundreds of calls each
		}
		for status := 400; status < 600; status++ {
			if dialect != "generic" && http.StatusText(status) == "" {
				continue
			}
			for header, value := range map[string]string{"Retry-After": "7200", "Retry-After-Ms": "7200000"} {
				clock := &ledgertest.Clock{}
				clock.Set(at(noon))
				ledger := memledger.Open(&memledger.Options{Now: clock.Now})
				up := &upstreamOf{status: status, header: http.Header{header: {value}}}
				var stopped int
				for process := range 2 {
					guard, err := quota.NewGuard(ledger, budgets, nil)
					if err != nil {
						t.Fatal(err)
					}
					client := &http.Client{Transport: &quota.Transport{Guard: guard, Base: up,
						MaxWait: 30 * time.Second, Retries: 2,
						Price: func(*http.Request) (quota.Call, error) {
							return quota.Call{Account: "my-project", Method: fmt.Sprint("m", stopped), Units: 100}, nil
						},
						Feedback: reader(t, dialect,
							feedback.Options{Budgets: budgets,
								Now: func() time.Time { return clock.Now().Add(-time.Hour) }})}}
					for i := range 2 {
						resp, err := client.Get("http://upstream/m")
						if process == 0 && i == 0 {
							if err != nil || resp.StatusCode != status {
								t.Fatalf("%s %d: %v; want the answer", dialect, status, err)
							}
							continue
						}
						refused, ok := errors.AsType[*quota.RefusedError](err)
						if !ok || refused.Reason != quota.ReasonCooldown || refused.RetryAfter != 2*time.Hour ||
							!strings.Contains(refused.Detail, fmt.Sprint(status)) {
							t.Fatalf("%s %d: %v; want a cooldown of 2 hours that says why", dialect, status, err)
						}
						stopped++
					}
				}
				if up.hits != 1 || stopped != 3 {
					t.Errorf("%s %d: %d hits, %d refused; want 1 and 3", dialect, status, up.hits, stopped)
				}
			}
		}
	}
}

// TestARetryAfterWithoutErrorSetsNoCooldown: a Retry-After of 0, one in a
// response that is not an error, and one that no wait can satisfy set no
// cooldown.
func TestARetryAfterWithoutErrorSetsNoCooldown(t *testing.T) {
	for name, resp := range map[string]*http.Response{
		"accepted":     response(202, dated+"Retry-After: 7200", ""),
		"elsewhere":    response(302, dated+"Retry-After: 7200", ""),
		"not modified": response(304, dated+"Retry-After: 7200", ""),
		"0":            response(404, dated+"Retry-After: 0", ""),
		"nonsense":     response(404, dated+"Retry-After: soon", ""),
		"0, in ms":     response(404, dated+"Retry-After-Ms: 0", ""),
		"less, in ms":  response(404, dated+"Retry-After-Ms: -5", ""),
		"past":         response(404, dated+"Retry-After: Fri, 20 Nov 2026 11:00:00 GMT", ""),
		"no money":     response(429, asJSON+"Retry-After: 7200", `{"error":{"type":"insufficient_quota"}}`),
	} {
		dialect := "generic"
		if name == "no money" {
			dialect = "openai"
		}
		if got := reader(t, dialect, feedback.Options{Now: clock(noon)})(call, resp); got.For != 0 {
			t.Errorf("%s: %+v; want no cooldown", name, got)
		}
	}
}

// TestRetryAfterOfAFailingUpstreamStopsItsAccount: a failing upstream stops its
// account, another error the budget that covers the call.
func TestRetryAfterOfAFailingUpstreamStopsItsAccount(t *testing.T) {
	budgets := []quota.Budget{hour("all", 100),
		{Account: "my-project", Name: "tier2", Limit: 20, Window: quota.Sliding(time.Minute),
			Methods: []string{"search.list"}}}
	for _, c := range []struct {
		dialect string
		status  int
		budgets []quota.Budget
		budget  string
	}{
		{"generic", 503, budgets[:1], ""}, {"generic", 500, budgets[:1], ""}, {"generic", 404, budgets[:1], "all"},
		{"generic", 413, budgets, "tier2"},
		{"slack", 503, budgets, ""}, {"slack", 404, budgets, "tier2"}, {"generic", 401, nil, ""},
	} {
		got := reader(t, c.dialect, feedback.Options{Budgets: c.budgets, Now: clock(noon)})(call,
			response(c.status, dated+"Retry-After: 90", ""))
		if got.For != 90*time.Second || got.Budget != c.budget || got.Transient != (c.status >= 500) {
			t.Errorf("%s %d: %+v; want 90 s of %q", c.dialect, c.status, got, c.budget)
		}
	}
	both := dated + "Retry-After: 90\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: "
	for reset, want := range map[string]time.Duration{"30": 90 * time.Second, "300": 300 * time.Second} {
		if got := reader(t, "generic", feedback.Options{Now: clock(noon)})(call,
			response(503, both+reset, "")); got.For != want {
			t.Errorf("beside a reset in %s s: %+v; want the longer", reset, got)
		}
	}
}

// TestCooldownsIgnoreTheHostClock: every dialect's cooldowns are the same
// whatever the host's clock shows, as long as the answer has a Date.
func TestCooldownsIgnoreTheHostClock(t *testing.T) {
	answers := map[string]*http.Response{}
	for _, test := range dialectTests {
		if strings.Contains(test.header, "Date: ") {
			answers[test.dialect+" "+test.name+"\x00"+test.dialect] = response(test.status, test.header, test.body)
		}
	}
	answers["google\x00google"] = response(403, dated, body(403, spentHTML, "quotaExceeded"))
	for name, resp := range answers {
		_, dialect, _ := strings.Cut(name, "\x00")
		text, _ := io.ReadAll(resp.Body)
		var right quota.Verdict
		for i, skew := range []time.Duration{0, time.Hour, -time.Hour, 26 * time.Hour, -26 * time.Hour} {
			resp.Body = io.NopCloser(strings.NewReader(string(text)))
			got := reader(t, dialect,
				feedback.Options{Zone: time.UTC, Now: func() time.Time { return at(noon).Add(skew) }})(call, resp)
			if got.Later = nil; i == 0 {
				right = got
			}
			if !reflect.DeepEqual(got, right) {
				t.Errorf("%q, with a clock that is off by %s: %+v; want %+v", name, skew, got, right)
			}
		}
	}
	got := reader(t, "google", feedback.Options{Zone: time.UTC, Now: clock("2026-01-01T00:00:00Z")})(call,
		response(403, dated, body(403, spentHTML, "quotaExceeded")))
	if got.For != 12*time.Hour+30*time.Second {
		t.Errorf("the day's end: %+v; want from noon to midnight", got)
	}
	got = reader(t, "google", feedback.Options{Zone: time.UTC})(call,
		response(403, dated+"Age: 3600", body(403, spentHTML, "quotaExceeded")))
	if got.For != 11*time.Hour+30*time.Second {
		t.Errorf("the day's end, by a cache an hour later: %+v", got)
	}
	got = reader(t, "generic", feedback.Options{Now: clock(noon)})(call,
		response(429, "Retry-After: Fri, 20 Nov 2026 12:01:30 GMT", ""))
	if got.For != 90*time.Second {
		t.Errorf("without a Date: %+v; want it by the host's clock", got)
	}
	// The ledger's own clock is another: the cooldown lasts as long on it.
	ledgerClock := &ledgertest.Clock{}
	ledgerClock.Set(at("2026-11-20T09:00:00Z"))
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: ledgerClock.Now}),
		[]quota.Budget{hour("all", 500)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	up := &upstreamOf{status: 429, header: http.Header{"Date": {date}, "X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset": {epoch(10 * time.Minute)}}}
	client := clientOf(t, nil, &quota.Transport{Guard: guard, Base: up,
		Feedback: reader(t, "generic", feedback.Options{})})
	for _, wait := range []time.Duration{0, 10*time.Minute - time.Second, time.Second} {
		ledgerClock.Add(wait)
		client.Get("http://upstream/m")
	}
	if up.hits != 2 {
		t.Errorf("%d hits; want one, and the next 10 minutes later", up.hits)
	}
}

// TestAnUndocumentedCostLowersNothing: a cost that is not documented, or stands
// in an error, is marked so that it lowers nothing; and a documented cost is at
// least 1.
func TestAnUndocumentedCostLowersNothing(t *testing.T) {
	const usage = `{"usage":{"total_tokens":%d}}`
	for _, c := range []struct {
		name, dialect string
		resp          *http.Response
		want          quota.Verdict
	}{
		{"0 in a header", "generic", response(200, dated+"X-RateLimit-Cost: 0", ""), guessed(1)},
		{"much in a header", "generic", response(200, dated+"X-RateLimit-Cost: 99999999999", ""),
			guessed(quota.MaxUnits)},
		{"a parameter", "generic", response(200, dated+`RateLimit: "a";r=5;t=9;cost=0`, ""), guessed(1)},
		{"nothing documented", "openai", response(200, asJSON, fmt.Sprintf(usage, 0)), settled(1)},
		{"documented", "openai", response(200, asJSON, fmt.Sprintf(usage, 5)), settled(5)},
		{"of an error", "openai", response(400, asJSON, fmt.Sprintf(usage, 5)), guessed(5)},
		{"below nothing", "openai", response(200, asJSON, fmt.Sprintf(usage, -5)), quota.Verdict{}},
	} {
		if got := reader(t, c.dialect, feedback.Options{Now: clock(noon)})(call, c.resp); !reflect.DeepEqual(got,
			c.want) {
			t.Errorf("%s: got %+v; want %+v", c.name, got, c.want)
		}
	}
	unchanged := feedback.Options{Now: clock(noon), NotModified: func(quota.Call) quota.Units { return 0 }}
	got := reader(t, "generic", unchanged)(call, response(304, "X-RateLimit-Cost: 500", ""))
	if !reflect.DeepEqual(got, quota.Verdict{Free: true}) {
		t.Errorf("not modified: %+v; want what is configured", got)
	}
}
