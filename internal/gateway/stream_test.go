package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/quota"
)

// echo answers line by line while the request goes on, with trailers.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Trailer", "X-Lines, X-Protocol")
	lines := bufio.NewScanner(r.Body)
	n := 0
	for ; lines.Scan(); n++ {
		fmt.Fprintf(w, "echo %s\n", lines.Text())
		_ = control.Flush()
	}
	w.Header().Set("X-Lines", fmt.Sprint(n))
	w.Header().Set("X-Protocol", r.Proto)
	w.Header().Set(http.TrailerPrefix+"X-Request-Trailer", r.Trailer.Get("X-Sent")+r.Trailer.Get("Ration-Job"))
}

func protocols(http2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	return p
}

// TestAnAnswerBeginsBeforeItsRequestEnds: over HTTP/1.1 and HTTP/2 on both
// sides, an answer begins before its request has ended, and trailers pass in
// both directions.
func TestAnAnswerBeginsBeforeItsRequestEnds(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		u := &upstream{Server: httptest.NewUnstartedServer(http.HandlerFunc(echo))}
		base := http.RoundTripper(nil)
		want := "HTTP/1.1"
		if overTLS {
			u.EnableHTTP2 = true
			u.StartTLS()
			base, want = u.Client().Transport, "HTTP/2.0"
		} else {
			u.Start()
		}
		t.Cleanup(u.Close)
		c := newClient(t, anyTable, t.TempDir(), u)
		s := newServer(t, &gateway.Options{Endpoint: u.URL, Base: base}, c)
		for _, overHTTP2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %t, h2c %t", overTLS, overHTTP2), func(t *testing.T) {
				client := &http.Transport{Protocols: protocols(overHTTP2)}
				defer client.CloseIdleConnections()
				for range 3 {
					exchange(t, client, s.url+"/to/api.example.com/x", want)
				}
			})
		}
		if used(t, c) != 6 {
			t.Errorf("%d used; want 6", used(t, c))
		}
	}
}

// exchange sends lines, each after the answer to the one before.
func exchange(t *testing.T, client *http.Transport, url, want string) {
	t.Helper()
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Sent": nil, "Ration-Job": nil}
	go fmt.Fprintln(writer, "one")
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, next := range []string{"two", "three", ""} {
		if !lines.Scan() {
			t.Fatalf("no answer before %q: %v", next, lines.Err())
		}
		if next != "" {
			fmt.Fprintln(writer, next)
		}
	}
	req.Trailer["X-Sent"], req.Trailer["Ration-Job"] = []string{"the end"}, []string{"leaked"}
	writer.Close()
	for lines.Scan() {
		t.Errorf("%q follows", lines.Text())
	}
	if got := resp.Trailer; lines.Err() != nil || got.Get("X-Lines") != "3" || got.Get("X-Protocol") != want ||
		got.Get("X-Request-Trailer") != "the end" {
		t.Errorf("%v, trailers %v; want 3 lines over %s", lines.Err(), got, want)
	}
}

// TestEachEventPassesBeforeTheNext: each Server-Sent Event reaches the client
// before the upstream sends the next.
func TestEachEventPassesBeforeTheNext(t *testing.T) {
	next := make(chan bool)
	s, _, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/to/api.example.com/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for i := range 5 {
		line, err := events.ReadString('\n')
		_, _ = events.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		next <- true
	}
}

// TestAnEarlyAnswerReachesItsClient: an answer before the body was read reaches
// a client that sends its body all the same, and the next request does too.
func TestAnEarlyAnswerReachesItsClient(t *testing.T) {
	s, _, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	for range 20 {
		if a := s.do("POST", "/to/api.example.com/x", strings.Repeat("x", 100)); a.StatusCode != 413 {
			t.Fatalf("%s", a.Status)
		}
		if a := s.do("POST", "/to/evil.example/x", strings.Repeat("x", 100)); a.StatusCode != 403 {
			t.Fatalf("%s", a.Status)
		}
	}
}

// waiting is a table in which the second call has to wait.
const waiting = `
version: 1
upstream: items
account: my-project
hosts: [api.example.com]
feedback: generic
routes: {"/{path...}": read}
costs: {read: 1}
budgets:
  - {name: day, limit: 1, window: {sliding: 5m}}
`

// TestAGoneClientStopsWaiting: a client that hangs up while it waits for units
// stops waiting and is not charged, with and without a body, over HTTP/1.1
// and HTTP/2.
func TestAGoneClientStopsWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for clients that are gone")
	}
	for _, request := range []struct {
		method, path, body string
		http2              bool
	}{
		{"GET", "/to/api.example.com/x", "", false}, {"POST", "/to/api.example.com/x", "body", false},
		{"POST", "/to/api.example.com/x", "body", true},
		{"POST", "/v1/spend", `{"method": "read", "max_wait": "5m"}`, false},
		{"POST", "/v1/spend", `{"method": "read", "max_wait": 300}`, true},
	} {
		u := newUpstream(t, nil)
		c := newClient(t, waiting, t.TempDir(), u)
		arrived := make(chan bool, 1)
		s := newServer(t, &gateway.Options{Endpoint: u.URL, MaxWait: gateway.MaxWait,
			Caller: func(_ *costs.Table, caller quota.Caller) (quota.Caller, error) {
				arrived <- true
				return caller,
					nil
			}}, c)
		s.do("POST", "/v1/spend", `{"method": "read"}`)
		<-arrived
		ctx, hangUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, request.method, s.url+request.path, strings.NewReader(request.body))
		if err != nil {
			t.Fatal(err)
		}
		go func() { <-arrived; hangUp() }()
		client := &http.Transport{Protocols: protocols(request.http2)}
		if resp, err := client.RoundTrip(req); err == nil {
			t.Errorf("%v: %s; want no answer", request, resp.Status)
		}
		s.Release(c) // when the request has ended
		if u.hits.Load() != 0 || used(t, c) != 1 {
			t.Errorf("%v: %d sent, %d used; want what was before", request, u.hits.Load(), used(t, c))
		}
	}
}

// TestAGoneUploadStopsWaiting: a client that hangs up while it waits for units
// is noticed although its body is larger than what is read into memory, in the
// middle of the body and after it.
func TestAGoneUploadStopsWaiting(t *testing.T) {
	const length = 1 << 20
	for _, sent := range []int{length / 2, length} {
		u := newUpstream(t, nil)
		c := newClient(t, waiting, t.TempDir(), u)
		arrived := make(chan bool, 2)
		s := newServer(t, &gateway.Options{Endpoint: u.URL, MaxWait: gateway.MaxWait,
			Caller: func(_ *costs.Table, caller quota.Caller) (quota.Caller, error) {
				arrived <- true
				return caller,
					nil
			}}, c)
		s.do("POST", "/v1/spend", `{"method": "read"}`)
		<-arrived
		conn := s.dial()
		fmt.Fprintf(conn, "POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n",
			length)
		if _, err := conn.Write(make([]byte, sent)); err != nil {
			t.Fatal(err)
		}
		<-arrived
		conn.Close()
		s.Release(c) // when the request has ended
		if u.hits.Load() != 0 || used(t, c) != 1 {
			t.Errorf("after %d of %d bytes: %d sent, %d used; want what was before", sent, length, u.hits.Load(),
				used(t, c))
		}
	}
}

// TestAWaitingUploadArrivesUnchanged: a large body that was read ahead while
// its request waited reaches the upstream as it was sent.
func TestAWaitingUploadArrivesUnchanged(t *testing.T) {
	want := make([]byte, 5<<20)
	rand.NewChaCha8([32]byte{}).Read(want)
	got := make(chan []byte, 1)
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- body
	})
	c := newClient(t, anyTable, t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL, MaxWait: gateway.MaxWait}, c)
	account := c.Table().Accounts()[0]
	if err := c.Guard().Cool(t.Context(), quota.Cooldown{Account: account, For: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if a := s.do("POST", "/to/api.example.com/x", string(want)); a.StatusCode != http.StatusOK ||
		!bytes.Equal(<-got, want) {
		t.Errorf("%s; want the body as it was", a.Status)
	}
}

// TestAGoneClientPaysForWhatWasSent: a request of a client that hangs up is
// refunded if it was not sent, and stays charged if it was.
func TestAGoneClientPaysForWhatWasSent(t *testing.T) {
	for _, sent := range []bool{false, true} {
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan bool, 1)
		u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
			hangUp()
			<-r.Context().Done()
			gone <- true
		})
		base := &http.Transport{}
		if !sent {
			base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				hangUp()
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		c := newClient(t, waiting, t.TempDir(), u)
		s := newServer(t, &gateway.Options{Endpoint: u.URL, Base: base}, c)
		req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/to/api.example.com/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			t.Errorf("%s; want no answer", resp.Status)
		}
		want := 0
		if sent {
			<-gone
			want = 1
		}
		s.Release(c)
		if int(u.hits.Load()) != want || used(t, c) != want {
			t.Errorf("%d sent, %d used; want %d", u.hits.Load(), used(t, c), want)
		}
	}
}

// TestTrailersOfAWaitingRequestPass: a body that is read ahead ends while its
// request is copied. Its trailers were written and copied at the same time,
// which ends the process.
func TestTrailersOfAWaitingRequestPass(t *testing.T) {
	var names, trailers strings.Builder
	for i := range 250 { // net/http takes 4 KiB of trailers
		fmt.Fprintf(&names, ", X-%d", i)
		fmt.Fprintf(&trailers, "X-%d: %d\r\n", i, i)
	}
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Last", r.Trailer.Get("X-249"))
	})
	c := newClient(t, anyTable, t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	for range 40 {
		resp,
			text := s.raw("POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: " +
			"close\r\nRation-Max-Wait: 1s\r\n" +
			"Transfer-Encoding: chunked\r\nTrailer: " + names.String()[2:] + "\r\n\r\n4\r\nbody\r\n0\r\n" +
			trailers.String() + "\r\n")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Last") != "249" {
			t.Errorf("%s with the last trailer %q: %s", resp.Status, resp.Header.Get("X-Last"), text)
		}
	}
}
