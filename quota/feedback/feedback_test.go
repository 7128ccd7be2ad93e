package feedback_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/memledger"
)

var call = quota.Call{Account: "my-project", Method: "search.list", Units: 100}

func at(text string) time.Time {
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return when
}

func clock(text string) func() time.Time { return func() time.Time { return at(text) } }

// reader returns a function that reads the responses of an upstream.
func reader(t testing.TB, name string, o feedback.Options) func(quota.Call, *http.Response) quota.Verdict {
	t.Helper()
	read, err := feedback.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// response returns a response whose header is given as "Name: value" lines.
func response(status int, header, text string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
		Request:       &http.Request{URL: &url.URL{Path: "/graphql"}}}
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		resp.Header.Add(name, value)
	}
	return resp
}

// clientOf returns a client whose calls are guarded by budgets and cost 100
// units, unless the transport says otherwise.
func clientOf(t testing.TB, budgets []quota.Budget, transport *quota.Transport) *http.Client {
	t.Helper()
	if transport.Guard == nil {
		guard, err := quota.NewGuard(memledger.Open(nil), budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		transport.Guard = guard
	}
	if transport.Price == nil {
		transport.Price = func(*http.Request) (quota.Call, error) {
			return quota.Call{Account: "my-project", Method: "m", Units: 100}, nil
		}
	}
	return &http.Client{Transport: transport}
}

// used returns what is charged in each budget of a client.
func used(t testing.TB, client *http.Client) (all []quota.Units) {
	t.Helper()
	balances, err := client.Transport.(*quota.Transport).Guard.Balances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range balances {
		all = append(all, b.Used)
	}
	return all
}

func TestNamesHasEachDialect(t *testing.T) {
	want := feedback.Names()
	for _, name := range []string{
		"anthropic", "generic", "github", "google", "hubspot", "openai", "reddit", "salesforce", "shopify", "slack",
	} {
		if !slices.Contains(want, name) {
			t.Errorf("%s is not among %q", name, want)
		}
	}
	for _, name := range want {
		if got := reader(t, name, feedback.Options{})(call, nil); !reflect.DeepEqual(got, quota.Verdict{}) {
			t.Errorf("%s, no answer: %+v", name, got)
		}
	}
	_, err := feedback.New("gogle", feedback.Options{})
	if err == nil || !strings.Contains(err.Error(), `"gogle"; name one of a`) {
		t.Errorf("an unknown name: %v", err)
	}
}

// A spent day is a cooldown until just after the next Pacific midnight, on
// days of 23 and 25 hours too; one that is reported just after a midnight is
// the day that ended.
func TestSpentDayEndsAfterPacificMidnight(t *testing.T) {
	for now, until := range map[string]string{
		"2026-11-20T12:00:00Z": "2026-11-21T08:00:30Z",
		"2026-07-01T06:59:59Z": "2026-07-01T07:00:30Z",
		"2026-07-01T07:00:29Z": "2026-07-01T07:00:30Z",
		"2026-07-01T07:00:30Z": "2026-07-02T07:00:30Z",
		"2026-03-08T08:01:00Z": "2026-03-09T07:00:30Z", // 23 hours
		"2026-11-01T07:01:00Z": "2026-11-02T08:00:30Z", // 25 hours
	} {
		got := reader(t, "google", feedback.Options{Now: clock(now)})(call,
			response(403, "", body(403, spentHTML, "quotaExceeded")))
		want := quota.Verdict{For: at(until).Sub(at(now)), Reason: "403 quotaExceeded"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("at %s: %+v; want %+v", now, got, want)
		}
	}
}

// If the upstream's day or month does not begin at midnight, or its clock is
// further off, the cooldown ends accordingly.
func TestSpentDayEndsAtTheDocumentsReset(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		window     quota.Window
		now, until string
	}{
		{quota.Daily(berlin).At(6 * time.Hour), "2026-11-20T04:00:00Z", "2026-11-20T05:00:30Z"},
		{quota.Daily(berlin).At(6 * time.Hour), "2026-11-20T12:00:00Z", "2026-11-21T05:00:30Z"},
		{quota.Daily(berlin).At(6 * time.Hour), "2027-03-27T12:00:00Z", "2027-03-28T04:00:30Z"}, // 23 hours
		{quota.Daily(berlin).WithMargin(5 * time.Minute), "2026-11-20T12:00:00Z", "2026-11-20T23:05:00Z"},
		{quota.Monthly(berlin), "2026-11-20T12:00:00Z", "2026-11-30T23:00:30Z"},
		{quota.Window{}, "2026-11-20T12:00:00Z", "2026-11-21T00:00:30Z"}, // the Zone's
	} {
		for dialect, resp := range map[string]*http.Response{
			"google":  response(403, "", body(403, spentHTML, "quotaExceeded")),
			"hubspot": response(200, "X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: 0", ""),
		} {
			if got := reader(t, dialect, feedback.Options{Zone: time.UTC, Resets: c.window, Now: clock(c.now)})(call,
				resp); got.For != at(c.until).Sub(at(c.now)) {
				t.Errorf("%s, %s, at %s: for %s; want until %s", dialect, c.window, c.now, got.For, c.until)
			}
		}
	}
}

// A caller that asks for gzip itself gets the compressed body, which is read
// too, and so is one that a program has decompressed before it reports it.
func TestAGzippedBodyIsRead(t *testing.T) {
	pack := func(text string) string {
		var b strings.Builder
		w := gzip.NewWriter(&b)
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	spent := body(403, spentHTML, "quotaExceeded")
	for name, c := range map[string]struct {
		sent  string
		class bool
	}{
		"whole": {pack(spent), true}, "cut short": {pack(spent)[:80], false}, "not packed": {spent, true},
		"empty":  {"", false},
		"a bomb": {pack(`{"error":{"errors":[{"reason":"quotaExceeded"}]}` + strings.Repeat(" ", 10<<20) + "}"), false},
	} {
		resp := response(403, "Content-Encoding: gzip", c.sent)
		got := reader(t, "google", feedback.Options{Now: clock(noon)})(call, resp)
		if (got.Reason == "403 quotaExceeded") != c.class {
			t.Errorf("%s: %+v", name, got)
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != c.sent {
			t.Errorf("%s: %d bytes, %v; want those that were sent", name, len(rest), err)
		}
	}
}

// The budgets of YouTube's model of 2026, and of the one before.
var (
	buckets = []quota.Budget{
		{Account: "my-project", Name: "cron", Limit: 90, Window: quota.Daily(time.UTC), Lanes: []string{"cron"}},
		{Account: "my-project", Name: "searches", Limit: 90, Window: quota.Daily(time.UTC),
			Methods: []string{"search.list"}, Measure: quota.Calls},
		{Account: "my-project", Name: "others", Limit: 9500, Window: quota.Daily(time.UTC),
			Except: []string{"search.list"}},
	}
	shared = []quota.Budget{
		{Account: "my-project", Name: "youtube", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
		{Account: "my-project", Name: "youtube-day", Limit: 9500, Window: quota.Daily(time.UTC)},
		{Account: "my-project", Name: "youtube-search", Limit: 4000, Window: quota.Sliding(24 * time.Hour),
			Methods: []string{"search.list"}},
	}
)

func TestAGoogleErrorCoolsDownItsBudget(t *testing.T) {
	const searches, videos = "search.list", "videos.list"
	daySearch := body(429, spentText("Search Queries", "day"), "rateLimitExceeded", searchDay, search)
	now, midnight := at("2026-11-20T12:00:00Z"), at("2026-11-21T00:00:30Z")
	soonest := now.Add(2 * time.Second)
	soon := quota.Verdict{Transient: true, After: time.Microsecond}
	tests := []struct {
		name    string
		budgets []quota.Budget
		method  string
		resp    *http.Response
		want    quota.Verdict
		until   time.Time
	}{
		{
			"no body", buckets, videos, &http.Response{StatusCode: 429},
			guess("others", 0, 25*time.Hour+31*time.Minute, "429 Too Many Requests"), soonest,
		},
		{"fine", buckets, searches, response(200, "Retry-After: 60", "quotaExceeded"), quota.Verdict{}, time.Time{}},
		{"a bucket's day", buckets, searches, response(429, "Retry-After: 90", daySearch),
			quota.Verdict{Budget: "searches", Reason: "429 rateLimitExceeded search_list"}, midnight},
		{"a bucket's day, no budget of its own", shared[:2], searches, response(429, "", daySearch),
			quota.Verdict{Reason: "429 rateLimitExceeded search_list"}, midnight},
		{"a bucket's day, in the older table", shared, searches, response(429, "", daySearch),
			quota.Verdict{Budget: "youtube-search", Reason: "429 rateLimitExceeded search_list"}, midnight},
		{"the day", buckets, videos, response(403, "", body(403, spentHTML, "quotaExceeded")),
			quota.Verdict{Budget: "others", Reason: "403 quotaExceeded"}, midnight},
		{"the day, of a search", shared, searches, response(403, "", body(403, spentHTML, "quotaExceeded")),
			quota.Verdict{Reason: "403 quotaExceeded"}, midnight},
		{"too fast", buckets, videos, response(429, "Retry-After: 90", ""),
			quota.Verdict{Budget: "others", Reason: "429 Too Many Requests", Transient: soon.Transient,
				After: soon.After}, now.Add(90 * time.Second)},
		{"too fast, in a short window",
			[]quota.Budget{{Account: "my-project", Name: "burst", Limit: 5, Window: quota.Sliding(10 * time.Second)}},
			videos, response(429, "", ""),
			guess("burst", 0, 10*time.Second, "429 Too Many Requests"), soonest},
		{
			"too fast, nonsense", buckets, videos,
			response(403, "Retry-After: -1", body(403, "x", "rateLimitExceeded")),
			guess("others", 0, 25*time.Hour+31*time.Minute, "403 rateLimitExceeded"), soonest,
		},
		{"never", buckets, searches,
			response(429, "Retry-After: 90",
				body(429, "x", "rateLimitExceeded", searchDay, search, "quota_limit_value=0")),
			quota.Verdict{Never: true, Reason: "429 rateLimitExceeded search_list"}, time.Time{}},
		{"forbidden", buckets, videos, response(403, "", body(403, "x", "forbidden")), quota.Verdict{}, time.Time{}},
		{"forbidden for a while", buckets, videos, response(403, "Retry-After: 90", body(403, "x", "forbidden")),
			quota.Verdict{Budget: "others", Reason: "403 forbidden"}, now.Add(90 * time.Second)},
		{"an outage", buckets, videos, response(503, "", body(503, "x", "backendError")),
			quota.Verdict{Transient: true}, time.Time{}},
		{"an outage with an end", buckets, videos, response(503, "Retry-After: 90", body(503, "x", "backendError")),
			quota.Verdict{Reason: "503 backendError", Transient: true, After: soon.After}, now.Add(90 * time.Second)},
	}
	for _, test := range tests {
		c := call
		c.Method = test.method
		if !test.until.IsZero() {
			test.want.For = test.until.Sub(now)
		}
		if got := reader(t, "google",
			feedback.Options{Zone: time.UTC, Budgets: test.budgets, Now: clock("2026-11-20T12:00:00Z")})(c,
			test.resp); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v; want %+v", test.name, got, test.want)
		}
	}
}

// tracked is a body that may fail after its text and that records how it
// is used.
type tracked struct {
	io.Reader
	fail   error
	read   atomic.Int64 // which may be ahead, in the background
	closed int
}

func (b *tracked) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	if err == io.EOF && b.fail != nil {
		err, b.fail = b.fail, nil
	}
	return n, err
}

func (b *tracked) Close() error { b.closed++; return nil }

// The caller reads everything that was sent, then the same error or io.EOF.
func TestBodyReadsTheSame(t *testing.T) {
	broken := errors.New("connection reset")
	long := strings.Repeat("0123456789abcdef", 128<<10) // 2 MB
	json := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for name, c := range map[string]struct {
		dialect string
		status  int
		header  http.Header
		most    int // that may be read ahead
	}{
		"an error":        {"google", 403, nil, 64<<10 + 1},
		"fine":            {"google", 200, json, 0},
		"fine, with cost": {"openai", 200, json, 64<<10 + 1},
		"fine, no JSON":   {"openai", 200, http.Header{"Content-Type": {"text/event-stream"}}, 0},
		"created":         {"openai", 201, json, 64<<10 + 1},
	} {
		for _, text := range []string{"", body(403, spentHTML, "quotaExceeded"), long[:64<<10], long[:1<<20], long} {
			for _, fail := range []error{nil, broken, io.ErrUnexpectedEOF} {
				sent := &tracked{Reader: strings.NewReader(text), fail: fail}
				resp := &http.Response{StatusCode: c.status, Header: c.header, Body: sent, ContentLength: -1}
				reader(t, c.dialect, feedback.Options{})(call, resp)
				if read := sent.read.Load(); read > int64(c.most) {
					t.Errorf("%s: %d bytes were read ahead", name, read)
				}
				got, err := io.ReadAll(resp.Body)
				if !bytes.Equal(got, []byte(text)) || err != fail {
					t.Errorf("%s: %d bytes, then %v; want %d, then %v", name, len(got), err, len(text), fail)
				}
				if err := resp.Body.Close(); err != nil || sent.closed != 1 {
					t.Errorf("%s: closed %d times, %v", name, sent.closed, err)
				}
			}
		}
	}
	known := &tracked{Reader: strings.NewReader(long)}
	reader(t, "openai", feedback.Options{})(call,
		&http.Response{StatusCode: 200, Header: json, Body: known, ContentLength: int64(len(long))})
	if known.read.Load() != 0 {
		t.Errorf("%d bytes were read of a body that says it is too long", known.read.Load())
	}
}

// Behind a Transport, a spent bucket stops the calls of its budget before the
// wire, and no others. Their refusals name the caller that hit the limit.
func TestSpentBucketStopsOnlyItsBudget(t *testing.T) {
	hits := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		if r.URL.Path == "/search.list" {
			w.WriteHeader(429)
			io.WriteString(w, body(429, spentText("Search Queries", "day"), "rateLimitExceeded", searchDay, search))
		}
	}))
	defer server.Close()
	client := clientOf(t, shared, &quota.Transport{
		Feedback: reader(t, "google", feedback.Options{Budgets: shared}),
		Price: func(r *http.Request) (quota.Call, error) {
			return quota.Call{Account: "my-project", Method: r.URL.Path[1:], Units: 1,
				Caller: quota.Caller{Lane: "cron", Job: "search:music", Region: "IN"}}, nil
		}})
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
	_, err := get("search.list")
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || refused.Reason != quota.ReasonCooldown || refused.Budget != "youtube-search" ||
		refused.Detail != "429 rateLimitExceeded search_list (cron/search:music IN)" {
		t.Fatalf("after it: %v", err)
	}
	if _, err := get("videos.list"); err != nil || hits != 2 {
		t.Fatalf("another method: %v; %d requests on the wire", err, hits)
	}
}
