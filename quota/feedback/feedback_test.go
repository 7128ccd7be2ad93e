package feedback_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/memledger"
)

var call = quota.Call{Account: "my-project", Method: "search.list", Units: 100}

func at(text string) func() time.Time {
	return func() time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			panic(err)
		}
		return when
	}
}

// A spent day is a cooldown until just after the next Pacific midnight, on
// days of 23 and 25 hours too; one that is reported just after a midnight is
// the day that ended.
func TestReset(t *testing.T) {
	for now, until := range map[string]string{
		"2026-11-20T12:00:00Z": "2026-11-21T08:00:30Z",
		"2026-07-01T06:59:59Z": "2026-07-01T07:00:30Z",
		"2026-07-01T07:00:29Z": "2026-07-01T07:00:30Z",
		"2026-07-01T07:00:30Z": "2026-07-02T07:00:30Z",
		"2026-03-08T08:01:00Z": "2026-03-09T07:00:30Z", // 23 hours
		"2026-11-01T07:01:00Z": "2026-11-02T08:00:30Z", // 25 hours
	} {
		resp := &http.Response{StatusCode: 403, Body: io.NopCloser(strings.NewReader(body(403, spentHTML, "quotaExceeded")))}
		got := feedback.Google{Now: at(now)}.Feedback(call, resp)
		if want := at(until)(); !got.Until.Equal(want) || got.Budget != "" || got.Settled {
			t.Errorf("at %s: %+v; want until %s", now, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	google := feedback.Google{Zone: time.UTC, Now: at("2026-11-20T12:00:00Z"), Budget: func(c quota.Call, bucket string) string {
		return c.Method + "/" + bucket
	}}
	respond := func(status int, after, text string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(strings.NewReader(text))}
	}
	tests := []struct {
		resp   *http.Response
		until  string // empty: the zero Verdict
		budget string
	}{
		{nil, "", ""},
		{&http.Response{StatusCode: 429}, "2026-11-20T12:01:00Z", "search.list/default"}, // no body
		{respond(200, "60", "quotaExceeded"), "", ""},
		{respond(429, "90", body(429, spentText("Search Queries", "day"), "rateLimitExceeded", searchDay, search)), "2026-11-21T00:00:30Z", "search.list/search_list"},
		{respond(429, "90", ""), "2026-11-20T12:01:30Z", "search.list/default"},
		{respond(403, "-1", body(403, "x", "rateLimitExceeded")), "2026-11-20T12:01:00Z", "search.list/default"},
		{respond(429, "90", body(429, "x", "x", searchDay, "quota_limit_value=0")), "", ""},
		{respond(403, "90", body(403, "x", "forbidden")), "", ""},
		{respond(503, "90", body(503, "x", "backendError")), "", ""},
	}
	for i, test := range tests {
		got := google.Feedback(call, test.resp)
		if test.until == "" {
			want := quota.Verdict{}
			if test.resp != nil && test.resp.StatusCode == 503 {
				want = quota.Verdict{Transient: true, After: 90 * time.Second}
			}
			if got != want {
				t.Errorf("%d: %+v; want %+v", i, got, want)
			}
			continue
		}
		if want := at(test.until)(); !got.Until.Equal(want) || got.Budget != test.budget || got.Reason == "" || got.Transient != want.Before(at("2026-11-21T00:00:00Z")()) {
			t.Errorf("%d: %+v; want until %s of %s", i, got, want, test.budget)
		}
	}
}

// tracked is a body that fails once after its text, or not, and knows how it was used.
type tracked struct {
	io.Reader
	fail         error
	read, closed int
}

func (b *tracked) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	if err == io.EOF && b.fail != nil {
		err, b.fail = b.fail, nil
	}
	return n, err
}

func (b *tracked) Close() error { b.closed++; return nil }

// The caller reads what was sent: all of it, then the same error, or none.
func TestBodyIsPutBack(t *testing.T) {
	broken := errors.New("connection reset")
	long := strings.Repeat("0123456789abcdef", 640<<10) // 10 MB
	for _, text := range []string{"", body(403, spentHTML, "quotaExceeded"), long[:64<<10], long} {
		for _, fail := range []error{nil, broken, io.ErrUnexpectedEOF} {
			sent := &tracked{Reader: strings.NewReader(text), fail: fail}
			resp := &http.Response{StatusCode: 403, Body: sent}
			feedback.Google{}.Feedback(call, resp)
			if sent.read > 64<<10 {
				t.Errorf("%d bytes were read ahead", sent.read)
			}
			got, err := io.ReadAll(resp.Body)
			if !bytes.Equal(got, []byte(text)) || err != fail {
				t.Errorf("%d bytes, then %v; want %d, then %v", len(got), err, len(text), fail)
			}
			if err := resp.Body.Close(); err != nil || sent.closed != 1 {
				t.Errorf("closed %d times, %v", sent.closed, err)
			}
		}
	}
	fine := &tracked{Reader: strings.NewReader("x")}
	if (feedback.Google{}).Feedback(call, &http.Response{StatusCode: 200, Body: fine}); fine.read != 0 {
		t.Error("the body of an answer that is no error was read")
	}
}

// Behind a Transport, one spent bucket stops the calls of its budget before the
// wire, and no others.
func TestTransport(t *testing.T) {
	hits := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		if r.URL.Path == "/search.list" {
			w.WriteHeader(429)
			io.WriteString(w, body(429, spentText("Search Queries", "day"), "rateLimitExceeded", searchDay, search))
		}
	}))
	defer server.Close()
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "all", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
		{Account: "my-project", Name: "searches", Limit: 4000, Window: quota.Sliding(24 * time.Hour), Methods: []string{"search.list"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	google := feedback.Google{Budget: func(_ quota.Call, bucket string) string {
		return map[string]string{"search_list": "searches"}[bucket]
	}}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Feedback: google.Feedback,
		Price: func(r *http.Request) (quota.Call, error) {
			return quota.Call{Account: "my-project", Method: r.URL.Path[1:], Units: 1}, nil
		}}}
	get := func(method string) (string, error) {
		resp, err := client.Get(server.URL + "/" + method)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	if text, err := get("search.list"); err != nil || !strings.Contains(text, "Search Queries per day") {
		t.Fatalf("the upstream's refusal: %q, %v", text, err)
	}
	_, err = get("search.list")
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || refused.Reason != quota.ReasonCooldown || refused.Budget != "searches" || !strings.HasPrefix(refused.Detail, "rateLimitExceeded: ") {
		t.Fatalf("after it: %v", err)
	}
	if _, err := get("videos.list"); err != nil || hits != 2 {
		t.Fatalf("another method: %v; %d requests on the wire", err, hits)
	}
}
