package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// short is long enough for a test's own steps.
const short = 300 * time.Millisecond

// newImpatient returns a gateway whose limits are all the same, before an
// upstream.
func newImpatient(t *testing.T, limit time.Duration, answer http.HandlerFunc) *server {
	t.Helper()
	u := newUpstream(t, answer)
	endless := strings.Repeat("x", 64<<20)
	g := gateway.New(&gateway.Options{Endpoint: u.URL, Documents: map[string]gateway.Document{
		"log": func(context.Context, *client.Client, url.Values) (any, error) { return []string{endless}, nil },
	}})
	g.SetLimits(limit)
	g.Use(newClient(t, anyTable, t.TempDir(), u))
	return serve(t, g, func(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration) error {
		return gateway.ServeWithin(ctx, l, h, grace, limit)
	})
}

// TestASlowClientLosesItsConnection: of headers, of bodies that something reads
// and of those that nothing reads, and between requests.
func TestASlowClientLosesItsConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a slow client")
	}
	s := newImpatient(t, short, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	for request, want := range map[string]string{
		"":                                   "",
		"GET /healthz HTTP/1.1\r\nHost: 127": "",
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                                      "200",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                      "",
		"POST /v1/spend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{":                             "408",
		"POST /v1/spend HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 50\r\n\r\n{":                          "421",
		"GET /v1/cooldowns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{":                          "200",
		"POST /to/evil.example/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{":                    "403",
		"POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{":                 "408",
		"POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5":         "408",
		"POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n\r\n": "400",
	} {
		conn := s.dial()
		io.WriteString(conn, request)
		answer, err := io.ReadAll(conn) // until the gateway closes it
		status, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " ")
		if nerr, ok := err.(net.Error); ok && nerr.Timeout() || want != "" && status != want {
			t.Errorf("%q: %q, %v; want %s, and the end", request, answer, err, want)
		}
	}
}

// TestLargeRequestsAreRefused: headers and bodies of the API have limits.
func TestLargeRequestsAreRefused(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	if a := s.do("POST", "/v1/spend", `{"method": "`+strings.Repeat("x", 1<<20)+`"}`); a.StatusCode != 413 {
		t.Errorf("%s %s", a.Status, a.text)
	}
	for _, head := range []string{"GET /" + strings.Repeat("x", 128<<10) + " HTTP/1.1\r\nHost: 127.0.0.1",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 128<<10)} {
		if resp, _ := s.raw(head + "\r\n\r\n"); resp.StatusCode != 431 && resp.StatusCode != 414 {
			t.Errorf("%s", resp.Status)
		}
	}
}

// TestAStalledReaderIsEnded: a client that does not read, of a stream
// and of an answer of the API, and one whose upstream falls silent.
func TestAStalledReaderIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for a stalled reader")
	}
	ended := make(chan bool, 2)
	s := newImpatient(t, short, func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- true }()
		for r.URL.Path == "/endless" {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
		fmt.Fprint(w, "begins")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for _, path := range []string{"/to/api.example.com/endless", "/to/api.example.com/silent", "/v1/log"} {
		conn := s.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		if path == "/v1/log" {
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			continue
		}
		<-ended
	}
	// over HTTP/2, whose connection goes on
	for _, path := range []string{"/to/api.example.com/endless", "/to/api.example.com/silent"} {
		transport := &http.Transport{Protocols: protocols(true)}
		resp, err := transport.RoundTrip(mustRequest(t, "GET", s.url+path))
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s: the answer has an end", path)
		}
		transport.CloseIdleConnections()
	}
	s.Use(nil) // when all requests have ended
}

func mustRequest(t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// TestALiveStreamOutlastsTheLimit: a stream that moves lasts for longer than
// the limit, in either direction.
func TestALiveStreamOutlastsTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for streams")
	}
	const limit, steps = 5 * short, 10 // a busy machine may hold up a step for as long as short
	s := newImpatient(t, limit, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
			return
		}
		drip(flushed{w}, steps)
	})
	reader, writer := io.Pipe()
	go func() {
		drip(writer, steps)
		writer.Close()
	}()
	upload := mustRequest(t, "POST", s.url+"/to/api.example.com/live")
	upload.Body = reader
	var both sync.WaitGroup
	for want, req := range map[string]*http.Request{strings.Repeat("x", steps): mustRequest(t, "GET",
		s.url+"/to/api.example.com/live"), fmt.Sprint(steps): upload} {
		both.Go(func() {
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != want {
				t.Errorf("%s: %s %q, %v; want %s", req.Method, resp.Status, text, err, want)
			}
		})
	}
	both.Wait()
}

// drip writes a byte at a time, with a pause of short after each.
func drip(w io.Writer, steps int) {
	tick := time.NewTicker(short)
	defer tick.Stop()
	for range steps {
		io.WriteString(w, "x")
		<-tick.C
	}
}

// flushed flushes what it writes.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(b []byte) (int, error) {
	defer f.ResponseWriter.(http.Flusher).Flush()
	return f.ResponseWriter.Write(b)
}

// TestShutdownAnswersWhatIsInFlight: a server that is told to end answers what
// is in flight, and after its grace ends that too.
func TestShutdownAnswersWhatIsInFlight(t *testing.T) {
	for _, grace := range []time.Duration{time.Minute, time.Millisecond} {
		arrived, release := make(chan bool), make(chan bool)
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			arrived <- true
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		g := gateway.New(&gateway.Options{Endpoint: u.URL})
		g.Use(newClient(t, anyTable, t.TempDir(), u))
		listener, base, err := gateway.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served, answered := make(chan error, 1), make(chan error, 1)
		go func() { served <- gateway.Serve(ctx, listener, g, grace) }()
		go func() {
			resp, err := (&http.Transport{}).RoundTrip(mustRequest(t, "GET", base+"/to/api.example.com/x"))
			if err == nil {
				resp.Body.Close()
			}
			answered <- err
		}()
		<-arrived
		stop()
		for err == nil { // until it accepts no more
			var conn net.Conn
			if conn, err = net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
				conn.Close()
			}
		}
		if grace == time.Minute {
			close(release)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := <-answered; (err == nil) != (grace == time.Minute) {
			t.Errorf("grace %s: %v", grace, err)
		}
		g.Use(nil)
	}
}

// TestStaleSocketIsReplaced, and no other file.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := t.TempDir() + "/s"
	first, _, err := gateway.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := gateway.Listen("unix:" + path); err == nil {
		t.Error("two servers listen")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, _, err := gateway.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// TestTheErrorOfListenNamesItsAddressOnce: an error names the address once, and
// says what to do.
func TestTheErrorOfListenNamesItsAddressOnce(t *testing.T) {
	taken, base, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address, folder := strings.TrimPrefix(base, "http://"), t.TempDir()+"/a b"
	for address, want := range map[string]string{
		"foo":             "listen on foo: write HOST:PORT or unix:PATH",
		"127.0.0.1:99999": `listen on 127.0.0.1:99999: "99999" is not a port; write a number up to 65535`,
		"unix:":           "listen on unix: needs a path, as in unix:/run/ration/gateway.sock",
		"unix:" + folder + "/s": fmt.Sprintf("listen on unix:%[1]s/s: no folder %[1]s; make it with mkdir -p %[2]s",
			folder, human.ShellQuote(folder)),
		address: fmt.Sprintf("listen on %s: bind: %v; give another address with --listen", address,
			syscall.EADDRINUSE),
	} {
		if _, _, err := gateway.Listen(address); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", address, err, want)
		}
	}
}

// TestAWaitDoesNotHoldTheDrain: a request that waits for its units when the
// server stops is refused with its retry time, and not dropped at the end
// of the grace.
func TestAWaitDoesNotHoldTheDrain(t *testing.T) {
	for _, path := range []string{"/to/api.example.com/x", "/v1/spend"} {
		u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
		g := gateway.New(&gateway.Options{Endpoint: u.URL})
		c := newClient(t, anyTable, t.TempDir(), u)
		g.Use(c)
		account := c.Table().Accounts()[0]
		if err := c.Guard().Cool(t.Context(),
			quota.Cooldown{Account: account, For: 5 * time.Minute, Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		listener, base, err := gateway.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		entered, served := make(chan bool), make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			g.ServeHTTP(w, r)
		})
		go func() { served <- gateway.Serve(ctx, listener, handler, time.Minute) }()
		req := mustRequest(t, "POST", base+path)
		req.Header.Set("Ration-Max-Wait", "9m")
		if path == "/v1/spend" {
			req.Header.Set("Content-Type", "application/json")
			req.Body = io.NopCloser(strings.NewReader(`{"verb":"GET","url":"https://api.example.com/x",` +
				`"max_wait":"9m"}`))
		}
		go func() {
			<-entered
			stop()
		}()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
		if after := resp.Header.Get("Retry-After"); resp.StatusCode != http.StatusTooManyRequests || after == "" ||
			u.hits.Load() != 0 {
			t.Errorf("%s: %s, Retry-After %q; want a refusal", path, resp.Status, after)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		g.Use(nil)
	}
}
