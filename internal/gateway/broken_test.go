package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

// newRawUpstream returns a gateway before an upstream that writes an answer
// byte for byte to each connection and closes it.
func newRawUpstream(t *testing.T, answer string) (*server, *client.Client) {
	t.Helper()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, answer)
	})
	c := newClient(t, anyTable, t.TempDir(), u)
	return newServer(t, &gateway.Options{Endpoint: u.URL}, c), c
}

// TestNoTrailerLooksLikeARefusal: neither the trailers of an upstream,
// announced or not, nor its early hints can make an answer look like a
// refusal of the gateway.
func TestNoTrailerLooksLikeARefusal(t *testing.T) {
	for name, answer := range map[string]string{
		"announced": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Ration-Refused-By, " +
			"X-Sum\r\n\r\n3\r\nabc\r\n0\r\nRation-Refused-By: x\r\nX-Sum: 1\r\n\r\n",
		"not": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nRation-Refused-By: " +
			"x\r\nX-Sum: 1\r\n\r\n",
		"hints": "HTTP/1.1 103 Early Hints\r\nRation-Refused-By: x\r\nX-Sum: 1\r\n\r\nHTTP/1.1 200 " +
			"OK\r\nContent-Length: 3\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newRawUpstream(t, answer)
			conn := s.dial()
			fmt.Fprint(conn,
				"GET /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTE: trailers\r\n\r\n")
			text, err := io.ReadAll(conn)
			if lower := strings.ToLower(string(text)); err != nil || strings.Contains(lower, "ration-refused-by") ||
				!strings.Contains(lower, "x-sum: 1\r\n") {
				t.Errorf("%v, %q; want X-Sum and nothing of the gateway's", err, text)
			}
		})
	}
}

// TestAnInvalidStatusIsA502: a status that net/http cannot write is a 502.
func TestAnInvalidStatusIsA502(t *testing.T) {
	for _, status := range []string{"000", "099"} {
		s, c := newRawUpstream(t, "HTTP/1.1 "+status+" X\r\nContent-Length: 3\r\n\r\nabc")
		if a := s.do("GET", "/to/api.example.com/x", ""); a.StatusCode != http.StatusBadGateway ||
			!strings.Contains(a.text, "invalid status "+status) || used(t, c) != 1 {
			t.Errorf("%s: %s %s, %d used", status, a.Status, a.text, used(t, c))
		}
	}
}

// TestACutAnswerIsNotRepeated: an answer that the upstream cuts short reaches
// the client as far as it goes. A client that got no byte on a connection it
// has used before would repeat the request.
func TestACutAnswerIsNotRepeated(t *testing.T) {
	for _, head := range []string{"Content-Length: 100\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		s, c := newRawUpstream(t, "HTTP/1.1 200 OK\r\n"+head)
		own := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
		defer own.CloseIdleConnections()
		get := func(path string) (*http.Response, error) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			return own.RoundTrip(req)
		}
		first, err := get("/healthz")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, first.Body)
		first.Body.Close()
		resp, err := get("/to/api.example.com/x")
		if err != nil {
			t.Fatalf("%v, %d used; want the beginning of the answer", err, used(t, c))
		}
		text, err := io.ReadAll(bufio.NewReader(resp.Body))
		resp.Body.Close()
		if string(text) != "abc" || err != io.ErrUnexpectedEOF || used(t, c) != 1 {
			t.Errorf("%q, %v, %d used; want abc, %v, and 1", text, err, used(t, c), io.ErrUnexpectedEOF)
		}
	}
}

// TestHintsOutliveAClientThatResets: an HTTP/2 client may end a request while
// net/http writes the header of a 103, which was changed then: a fatal error.
func TestHintsOutliveAClientThatResets(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 20 {
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), "a")
			}
			w.WriteHeader(http.StatusEarlyHints)
		}
	})
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, newClient(t, anyTable, t.TempDir(), u))
	client := &http.Client{Transport: &http.Transport{Protocols: protocols(true)}}
	defer client.CloseIdleConnections()
	for range 60 {
		ctx, reset := context.WithCancel(t.Context())
		hinted := httptrace.WithClientTrace(ctx,
			&httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				if h.Get("Content-Length") != "" || h.Get("X-99") != "a" {
					t.Errorf("a hint with %v; want the upstream's", h)
				}
				reset()
				return nil
			}})
		req, err := http.NewRequestWithContext(hinted, "GET", s.url+"/to/api.example.com/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
		reset()
	}
}

// TestHintsAndContinueAreNotMixed: net/http writes 100 Continue when the body
// is first read, which may be while an upstream's 103 is written.
func TestHintsAndContinueAreNotMixed(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for range 20 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		io.Copy(io.Discard, r.Body)
	})
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, newClient(t, anyTable, t.TempDir(), u))
	for range 100 {
		conn := s.dial()
		fmt.Fprint(conn,
			"POST /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: "+
				"4\r\nRation-Max-Wait: 1s\r\n\r\n")
		reader := bufio.NewReader(conn)
		status := 0
		for status < 200 {
			resp, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if status = resp.StatusCode; status == http.StatusContinue {
				io.WriteString(conn, "body")
			}
		}
		conn.Close()
		if status != http.StatusOK {
			t.Errorf("%d; want 200", status)
		}
	}
}

// TestAnUpstreamThatHangsUpIsSaidInWords: the detail of the 502 was EOF.
func TestAnUpstreamThatHangsUpIsSaidInWords(t *testing.T) {
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nX-A:"} {
		s, _ := newRawUpstream(t, begun)
		got := s.do("GET", "/to/api.example.com/x", "")
		if want := "the upstream closed the connection before it answered"; got.StatusCode != http.StatusBadGateway ||
			got.Header.Get("Ration-Detail") != want {
			t.Errorf("%q: %d, %s; want %s", begun, got.StatusCode, got.Header.Get("Ration-Detail"), want)
		}
	}
}
