package inbound_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
)

// limited is a real server behind a limiter.
type limited struct {
	t      *testing.T
	url    string
	passed atomic.Int64
}

func serve(t *testing.T, store inbound.Store, o *inbound.Options, limits ...inbound.Limit) *limited {
	t.Helper()
	limiter, err := inbound.New(store, limits, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &limited{t: t}
	server := httptest.NewServer(limiter.Handler(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		s.passed.Add(1)
	})))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// get returns the answer to a request of a client, whose body is closed.
func (s *limited) get(client string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Client", client)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// burst makes n requests and returns how many passed.
func (s *limited) burst(client string, n int) int64 {
	before := s.passed.Load()
	for range n {
		s.get(client)
	}
	return s.passed.Load() - before
}

// byHeader are options of a limiter that fails closed, with a test's clock.
func byHeader(c *clock) *inbound.Options {
	return &inbound.Options{Client: inbound.Header("Client"), FailClosed: true, Now: c.Now}
}

// TestTwoBurstsAroundAMinutePass: a limit of 60 a minute admits 60 at 11:59:59
// and none at 12:00:00; 60 more pass when the minute is over, for every client.
func TestTwoBurstsAroundAMinutePass(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		clock := newClock()
		s := serve(t, store, byHeader(clock), inbound.Limit{Calls: 60, Per: time.Minute})
		clock.Add(-time.Second)
		if n := s.burst("a", 100); n != 60 {
			t.Errorf("%d of 100 passed before the minute; want 60", n)
		}
		clock.Add(time.Second)
		if a, b := s.burst("a", 100), s.burst("b", 61); a != 0 || b != 60 {
			t.Errorf("%d of the client and %d of another passed after it; want 0 and 60", a, b)
		}
		clock.Add(59 * time.Second)
		if n := s.burst("a", 100); n != 60 {
			t.Errorf("%d passed a minute later; want 60", n)
		}
	})
}

// TestRetryAfterIsExact: with several limits, a client that waits as long as
// the answer says is let through, and one that comes a second earlier is not.
func TestRetryAfterIsExact(t *testing.T) {
	eachStore(t, func(t *testing.T, store inbound.Store) {
		clock := newClock()
		s := serve(t, store, byHeader(clock), inbound.Limit{Calls: 10, Per: time.Second},
			inbound.Limit{Calls: 25, Per: 10 * time.Minute})
		var waits []int
		for len(waits) == 0 || waits[len(waits)-1] < 100 {
			resp := s.get("a")
			if resp.StatusCode == http.StatusOK {
				continue
			}
			seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if err != nil || resp.StatusCode != http.StatusTooManyRequests ||
				resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%s %v", resp.Status, resp.Header)
			}
			waits = append(waits, seconds)
			clock.Add(time.Duration(seconds)*time.Second - time.Microsecond)
			if early := s.get("a"); early.StatusCode != http.StatusTooManyRequests && seconds > 1 {
				t.Errorf("a microsecond before its time: %s", early.Status)
			}
			clock.Add(time.Microsecond)
			if resp := s.get("a"); resp.StatusCode != http.StatusOK {
				t.Errorf("after %d s: %s, Retry-After %s; want that it passes", seconds, resp.Status,
					resp.Header.Get("Retry-After"))
			}
		}
		if last := waits[len(waits)-1]; waits[0] != 1 || last < 500 || last > 600 {
			t.Errorf("waits of %v s; want a second each, then what is left of ten minutes", waits)
		}
	})
}

// TestHeadersSayWhatIsLeft: the headers say what is left right after each
// request.
func TestHeadersSayWhatIsLeft(t *testing.T) {
	clock := &clock{}
	clock.Add(1_800_000_000 * time.Second)
	s := serve(t, inbound.Memory(), byHeader(clock),
		inbound.Limit{Calls: 2, Per: 10 * time.Second}, inbound.Limit{Calls: 3000, Per: 10 * time.Minute})
	for i, want := range []string{
		`200 "2/10s";q=2;w=10, "3000/10m";q=3000;w=600 | "2/10s";r=1;t=10, "3000/10m";r=2999;t=600 | 2 1 1800000010 | `,
		`200 "2/10s";q=2;w=10, "3000/10m";q=3000;w=600 | "2/10s";r=0;t=7, "3000/10m";r=2998;t=597 | 2 0 1800000010 | `,
		`429 "2/10s";q=2;w=10 | "2/10s";r=0;t=4 | 2 0 1800000010 | 4`,
	} {
		resp := s.get("a")
		h := resp.Header
		got := strconv.Itoa(resp.StatusCode) + " " + h.Get("RateLimit-Policy") + " | " + h.Get("RateLimit") + " | " +
			strings.Join([]string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"),
				h.Get("X-RateLimit-Reset")}, " ") + " | " + h.Get("Retry-After")
		if got != want {
			t.Errorf("answer %d:\n%s\nwant:\n%s", i, got, want)
		}
		clock.Add(3 * time.Second)
	}
}

// TestAStoreThatIsDownStopsClosedRoutesOnly: requests pass by default, and are
// answered with 503 where a route is closed instead; the errors are reported.
func TestAStoreThatIsDownStopsClosedRoutesOnly(t *testing.T) {
	server := servers.StartRedis(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	server.Stop()
	var reported atomic.Int64
	report := func(error) { reported.Add(1) }
	limit := inbound.Limit{Calls: 1, Per: time.Hour}
	open := serve(t, store, &inbound.Options{Report: report}, limit).get("")
	closed := serve(t, store, &inbound.Options{Report: report, FailClosed: true}, limit).get("")
	isClosed := closed.StatusCode == http.StatusServiceUnavailable && closed.Header.Get("Retry-After") != ""
	if open.StatusCode != http.StatusOK || !isClosed {
		t.Errorf("open: %s, closed: %s", open.Status, closed.Status)
	}
	if reported.Load() != 2 {
		t.Errorf("%d errors reported; want 2", reported.Load())
	}
}

// TestAClosedRouteStaysClosedAtAnEarlierDeadline: a route that is closed while
// the store hangs is closed too for a request whose own time ends first, rather
// than answered with 200 and nothing.
func TestAClosedRouteStaysClosedAtAnEarlierDeadline(t *testing.T) {
	server := servers.StartRedis(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	server.Hang(t)
	reported := 0
	o := &inbound.Options{FailClosed: true, Report: func(error) { reported++ }}
	limiter, err := inbound.New(store, []inbound.Limit{{Calls: 1, Per: time.Hour}}, o)
	if err != nil {
		t.Fatal(err)
	}
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("a request was let through")
	}))
	ask := func(ctx context.Context) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		return answer
	}
	hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if answer := ask(hasty); answer.Code != http.StatusServiceUnavailable || reported != 1 {
		t.Errorf("status %d, %d errors reported; want 503 and 1", answer.Code, reported)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if answer := ask(gone); answer.Body.Len() != 0 || reported != 1 {
		t.Errorf("a client that has gone: %q, %d errors reported; want no more", answer.Body, reported)
	}
}

// TestNoAddressIsForged: X-Forwarded-For counts only as far as trusted proxies
// wrote it.
func TestNoAddressIsForged(t *testing.T) {
	address := inbound.Address(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
		netip.MustParsePrefix("::ffff:192.168.0.0/112"))
	for _, test := range []struct{ remote, forwarded, want string }{
		{"203.0.113.9:1", "", "203.0.113.9"},
		{"203.0.113.9:1", "198.51.100.1", "203.0.113.9"},
		{"10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "192.0.2.7, 198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "192.0.2.7, 198.51.100.1, 10.2.3.4", "198.51.100.1"},
		{"10.0.0.1:1", "198.51.100.1:4711", "198.51.100.1"},
		{"10.0.0.1:1", "198.51.100.1, nonsense", "10.0.0.1"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"10.0.0.1:1", "10.0.0.2", "10.0.0.2"},
		{"[::ffff:203.0.113.9]:1", "", "203.0.113.9"},
		{"[2001:db8:1:2:3::4]:1", "", "2001:db8:1:2::/64"},
		{"[64:ff9b::cb00:7109]:1", "", "203.0.113.9"}, // all of them shared a /64
		{"[64:ff9b::cb00:710a]:1", "", "203.0.113.10"},
		{"[64:ff9b::a00:1]:1", "198.51.100.1", "10.0.0.1"}, // not the proxy 10.0.0.1
		{"10.0.0.1:1", "64:ff9b::c633:6401", "198.51.100.1"},
		{"[64:ff9b:0:1::1]:1", "", "64:ff9b:0:1::/64"},
		{"[fd00::1%eth0]:1", "[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"},
		{"192.168.7.1:1", "198.51.100.1", "198.51.100.1"},
		{"192.169.0.1:1", "198.51.100.1", "192.169.0.1"},
		{"@", "198.51.100.1", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		if got := address(r); got != test.want {
			t.Errorf("%s for %q is %q; want %q", test.remote, test.forwarded, got, test.want)
		}
	}
}

// TestClientsWithLongNamesAreToldApart: two clients whose long names begin
// alike are told apart, and requests may count as several.
func TestClientsWithLongNamesAreToldApart(t *testing.T) {
	o := &inbound.Options{Client: inbound.Header("Client"),
		Cost: func(r *http.Request) int64 { return int64(len(r.Header.Get("Client")) % 2) }}
	s := serve(t, inbound.Memory(), o, inbound.Limit{Calls: 3, Per: time.Hour})
	long := strings.Repeat("x", 1000)
	if a, b := s.burst(long+"a", 4), s.burst(long+"b", 4); a != 3 || b != 3 {
		t.Errorf("%d and %d passed; want 3 of each", a, b)
	}
}

// TestMistakesInLimitsAreErrors: limits that cannot be kept are errors.
func TestMistakesInLimitsAreErrors(t *testing.T) {
	for name, limits := range map[string][]inbound.Limit{
		"none": {}, "zero": {{Calls: 0, Per: time.Second}}, "no time": {{Calls: 1}},
		"twice":                      {{Calls: 1, Per: time.Second}, {Calls: 1, Per: time.Second, Estimate: true}},
		"too many":                   {{Calls: 1e12 + 1, Per: time.Second}},
		"too long":                   {{Calls: 1, Per: 400*24*time.Hour + time.Microsecond}},
		"too short":                  {{Calls: 1, Per: time.Millisecond - 1}},
		"between":                    {{Calls: 1, Per: time.Millisecond + 1}},
		"estimate in microseconds":   {{Calls: 1, Per: time.Second + time.Microsecond, Estimate: true}},
		"estimate that is not exact": {{Calls: 1<<52/1000 + 1, Per: time.Second, Estimate: true}},
	} {
		if _, err := inbound.New(inbound.Memory(), limits, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, limit := range []inbound.Limit{
		{Calls: 1e12, Per: 400 * 24 * time.Hour},
		{Calls: 1 << 52 / 1000 / 1000, Per: 1000 * time.Second, Estimate: true},
		{Calls: 1, Per: time.Millisecond + time.Microsecond},
	} {
		if _, err := inbound.New(inbound.Memory(), []inbound.Limit{limit}, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestACostAboveTheLimitIsA413: a request that can never fit is answered with
// 413, and is not told to come back.
func TestACostAboveTheLimitIsA413(t *testing.T) {
	o := &inbound.Options{Client: inbound.Header("Client"), Cost: func(*http.Request) int64 { return 4 }}
	s := serve(t, inbound.Memory(), o, inbound.Limit{Calls: 10, Per: time.Second},
		inbound.Limit{Calls: 3, Per: time.Hour})
	if resp := s.get("a"); resp.StatusCode != http.StatusRequestEntityTooLarge || resp.Header.Get("Retry-After") != "" {
		t.Errorf("%s, %v; want 413", resp.Status, resp.Header)
	}
}

// TestALimitIsNamedInItsShortestForm: headers name a limit by its calls and its
// time, in their shortest form.
func TestALimitIsNamedInItsShortestForm(t *testing.T) {
	for per, want := range map[time.Duration]string{
		time.Second: "1/1s", 10 * time.Minute: "1/10m", time.Hour: "1/1h", 24 * time.Hour: "1/24h",
		90 * time.Minute: "1/1h30m", 100 * time.Second: "1/1m40s", time.Hour + 5*time.Second: "1/1h0m5s",
		1500 * time.Millisecond: "1/1.5s",
	} {
		resp := serve(t, inbound.Memory(), nil, inbound.Limit{Calls: 1, Per: per}).get("a")
		if name, _, _ := strings.Cut(resp.Header.Get("RateLimit"), ";"); name != strconv.Quote(want) {
			t.Errorf("%s is named %s; want %q", per, name, want)
		}
	}
}
