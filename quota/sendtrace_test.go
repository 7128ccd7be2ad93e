package quota_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// unwrapping is a base whose Unwrap returns the base that it wraps.
type unwrapping struct{ http.RoundTripper }

func (u unwrapping) Unwrap() http.RoundTripper { return u.RoundTripper }

// opaque is a base without an Unwrap.
type opaque struct{ http.RoundTripper }

// TestTransportRefundsOnlyUnsentRequests fails requests at each stage.
func TestTransportRefundsOnlyUnsentRequests(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	secure := httptest.NewUnstartedServer(nil) // with a certificate that no client trusts
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	reset := newUpstream(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	cut := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	for _, c := range []struct {
		name, url string
		stays     quota.Units
	}{
		{"connection refused", closed.URL, 0},
		{"no such host", "http://nowhere.invalid", 0},
		{"certificate refused", secure.URL, 0},
		{"speaks no TLS", strings.Replace(reset.URL, "http", "https", 1), 0},
		{"reset before the answer", reset.URL, 10},
		{"cut inside the answer", cut.URL, 10},
	} {
		for _, base := range []http.RoundTripper{&http.Transport{}, unwrapping{&http.Transport{}},
			unwrapping{unwrapping{&http.Transport{}}}, opaque{&http.Transport{}}} {
			guard := newGuard(t, nil, budget("day", 250, time.Hour))
			var reported quota.Units
			client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10), Base: base,
				Charged: func(_ quota.Call, _ int, units quota.Units) { reported += units }}}
			resp, err := client.Post(c.url, "", strings.NewReader("x"))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			want := c.stays
			if _, ok := base.(opaque); ok {
				want = 10 // the error proves nothing
			}
			if got := used(t, guard); got != want || reported != want || err == nil {
				t.Errorf("%s, over %T: %d units stay, %d reported (%v); want %d and an error", c.name, base, got,
					reported, err, want)
			}
		}
	}
}

// tripper is a base made of a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// untraced sends a request to a URL over a connection without a trace.
func untraced(url string, then func(*http.Request) error) tripper {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := http.Post(url, "", nil)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		return nil, then(r)
	}
}

// TestAnErrorAfterSendingStaysCharged has bases that send a request and then
// fail as if nothing had been sent.
func TestAnErrorAfterSendingStaysCharged(t *testing.T) {
	up := newUpstream(t, nil)
	closed := httptest.NewServer(nil)
	closed.Close()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	sendThen := func(then func(*http.Request) error) tripper { return untraced(up.URL, then) }
	plain := sendThen(func(*http.Request) error { return dial })
	registered := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	registered.RegisterProtocol("custom", plain)
	registered.RegisterProtocol("https", plain)
	traced := func(hook func(*httptrace.ClientTrace)) tripper {
		return sendThen(func(r *http.Request) error {
			hook(httptrace.ContextClientTrace(r.Context()))
			return dial
		})
	}
	noAnswer := tripper(func(r *http.Request) (*http.Response, error) {
		plain(r)
		return nil, nil
	})
	both := tripper(func(r *http.Request) (*http.Response, error) {
		plain(r)
		return &http.Response{StatusCode: 200, Body: http.NoBody}, dial
	})
	joined := sendThen(func(r *http.Request) error {
		r = r.Clone(r.Context())
		r.URL.Host = strings.TrimPrefix(closed.URL, "http://")
		_, err := (&http.Transport{}).RoundTrip(r)
		return errors.Join(io.ErrUnexpectedEOF, err)
	})
	for name, c := range map[string]struct {
		base http.RoundTripper
		url  string
	}{
		"another protocol":             {registered, "custom://host/"},
		"https by another protocol":    {registered, "https://host/"},
		"a base of its own":            {plain, up.URL},
		"a base that wraps nothing":    {unwrapping{plain}, up.URL},
		"one that wraps itself":        {&cyclic{plain}, up.URL},
		"one that lies about net/http": {lying{plain}, up.URL},
		"one that says it was connected": {lying{traced(func(h *httptrace.ClientTrace) {
			h.GetConn("")
			h.GotConn(
				httptrace.GotConnInfo{})
		})}, up.URL},
		"one that asked, and failed later": {lying{traced(func(h *httptrace.ClientTrace) { h.GetConn("") })}, up.URL},
		"one with another error besides":   {lying{joined}, up.URL},
		"one with an end of file": {lying{sendThen(func(r *http.Request) error {
			h := httptrace.ContextClientTrace(r.Context())
			h.GetConn("")
			h.ConnectDone("", "", io.EOF)
			return io.EOF
		})}, up.URL},
		"neither answer nor error": {noAnswer, up.URL},
		"an answer and an error":   {both, up.URL},
	} {
		before := up.hits.Load()
		guard := newGuard(t, nil, budget("day", 250, time.Hour))
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10), Base: c.base}}
		if _, err := client.Get(c.url); err == nil || up.hits.Load() != before+1 || used(t, guard) != 10 {
			t.Errorf("%s: %d hits, %d units stay, %v; want 1, charged, and an error", name, up.hits.Load()-before,
				used(t, guard), err)
		}
	}
}

// lying has an Unwrap that returns net/http's transport, which it does not use.
type lying struct{ http.RoundTripper }

func (lying) Unwrap() http.RoundTripper { return &http.Transport{} }

type cyclic struct{ http.RoundTripper }

func (c *cyclic) Unwrap() http.RoundTripper { return c }

// TestCachedAnswersStayCharged: a base that answers without a connection may
// have sent the request.
func TestCachedAnswersStayCharged(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 250, time.Hour))
	cached := tripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	})
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10), Base: unwrapping{cached}}}
	resp, err := client.Get("http://127.0.0.1/x")
	if err != nil || resp.StatusCode != 200 || used(t, guard) != 10 {
		t.Errorf("%v, %d units; want an answer, charged", err, used(t, guard))
	}
}

func TestTransportRefundsWhatWasCancelledWhileDialling(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 250, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10), Base: base}}
	for range 2 { // the second time it is cancelled before
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:1/x", nil)
		if _, err := client.Do(req); !errors.Is(err, context.Canceled) || used(t, guard) != 0 {
			t.Errorf("%v, %d units stay; want cancelled, and nothing", err, used(t, guard))
		}
	}
}

// TestTransportChargesWhatNetHTTPResends cuts a reused connection after the
// request was read: net/http sends a GET again by itself, below the transport.
func TestTransportChargesWhatNetHTTPResends(t *testing.T) {
	for _, c := range []struct {
		limit quota.Units
		hits  int32
	}{{350, 3}, {250, 2}} {
		var up *upstream
		up = newUpstream(t, func(http.ResponseWriter, *http.Request) {
			if up.hits.Load() == 2 {
				panic(http.ErrAbortHandler)
			}
		})
		guard := newGuard(t, nil, budget("day", c.limit, time.Hour),
			quota.Budget{Account: account, Name: "calls", Limit: 5, Window: quota.Sliding(time.Hour),
				Measure: quota.Calls})
		var reported quota.Units
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(100), Base: &http.Transport{},
			Charged: func(_ quota.Call, _ int, units quota.Units) { reported += units }}}
		for i := range 2 {
			resp, err := client.Get(up.URL + "/search.list")
			if i == 1 && c.hits == 2 {
				if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Budget != "day" {
					t.Errorf("%v; want the refusal of what net/http would have sent again", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		balances, err := guard.Balances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := quota.Units(c.hits); up.hits.Load() != c.hits || balances[0].Used != 100*want ||
			balances[1].Used != want || reported != 100*want {
			t.Errorf("the upstream saw %d requests, charged are %d units and %d calls, reported %d; want %d",
				up.hits.Load(), balances[0].Used, balances[1].Used, reported, c.hits)
		}
	}
}

// TestAnsweredRequestsLeaveTheirContext: the watch of a request ends with the
// body of its response, and leaves the connection of a switched protocol alone.
func TestAnsweredRequestsLeaveTheirContext(t *testing.T) {
	conn, other := net.Pipe()
	defer other.Close()
	for name, c := range map[string]struct {
		status int
		body   io.ReadCloser
		end    func(io.ReadCloser)
		ends   bool
	}{
		"closed": {200, io.NopCloser(strings.NewReader("x")), func(b io.ReadCloser) { b.Close() }, true},
		"read":   {200, io.NopCloser(strings.NewReader("x")), func(b io.ReadCloser) { io.ReadAll(b) }, true},
		"half read": {200, io.NopCloser(strings.NewReader("xy")), func(b io.ReadCloser) { b.Read(make([]byte, 1)) },
			false},
		"empty":       {200, http.NoBody, func(io.ReadCloser) {}, true},
		"none":        {200, nil, func(io.ReadCloser) {}, true},
		"switched to": {101, conn, func(io.ReadCloser) {}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var watched context.Context
		transport := &quota.Transport{Guard: newGuard(t, nil, budget("day", 250, time.Hour)), Price: priced(1),
			Base: tripper(func(r *http.Request) (*http.Response, error) {
				watched = r.Context()
				return &http.Response{StatusCode: c.status, Body: c.body}, nil
			})}
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://upstream/m", nil)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		c.end(resp.Body)
		if (watched.Err() != nil) != c.ends || ctx.Err() != nil {
			t.Errorf("%s: the watched context ended with %v; want it ended %t", name, watched.Err(), c.ends)
		}
		if _, writes := resp.Body.(io.Writer); writes != (c.status == 101) {
			t.Errorf("%s: a body of %T", name, resp.Body)
		}
		cancel()
	}
}
