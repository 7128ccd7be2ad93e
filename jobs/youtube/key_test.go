package youtube_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// sent is the requests that reached the wire, and where the first redirects to.
type sent struct {
	requests []*http.Request
	location string
}

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, r)
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}
	if len(s.requests) == 1 && s.location != "" {
		resp.StatusCode = http.StatusFound
		resp.Header.Set("Location", s.location)
	}
	return resp, nil
}

// TestKeyIsNotSentOverPlainHTTP: the key is sent over https and to loopback
// addresses, to the API's own hosts.
func TestKeyIsNotSentOverPlainHTTP(t *testing.T) {
	hosts := []string{"youtube.googleapis.com", "127.0.0.1:7801", "localhost:7801", "[::1]:7801", "mirror.test"}
	for url, want := range map[string]string{
		"https://youtube.googleapis.com/x": "key", "https://YouTube.googleapis.com/x": "key",
		"http://127.0.0.1:7801/x": "key", "http://localhost:7801/x": "key",
		"http://[::1]:7801/x": "key", "https://mirror.test/x": "key", "https://evil.test/x": "",
		"http://evil.test/x":              "",
		"http://youtube.googleapis.com/x": "refused", "http://mirror.test/x": "refused",
	} {
		wire := &sent{}
		body := &closing{Reader: strings.NewReader("x")}
		req, _ := http.NewRequest("POST", url, body)
		_, err := (&youtube.KeyTransport{Key: func() (string, error) { return "key", nil }, Hosts: hosts,
			Base: wire}).RoundTrip(req)
		if want == "refused" {
			if err == nil || len(wire.requests) > 0 || !body.closed || !strings.Contains(err.Error(), "use https") ||
				strings.Contains(err.Error(), "key,") {
				t.Errorf("%s: %v, %d sent; want an error that says what to do", url, err, len(wire.requests))
			}
			continue
		}
		if err != nil || wire.requests[0].Header.Get(youtube.KeyHeader) != want ||
			req.Header.Get(youtube.KeyHeader) != "" {
			t.Errorf("%s: %v, key %q; want %q, on a copy", url, err, wire.requests[0].Header.Get(youtube.KeyHeader),
				want)
		}
	}
	wire := &sent{}
	plain, _ := http.NewRequest("GET", "http://mirror.test/x", nil)
	if _, err := (&youtube.KeyTransport{Hosts: hosts, Base: wire}).RoundTrip(plain); err != nil ||
		len(wire.requests) != 1 {
		t.Errorf("without a key: %v; want it sent", err)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// TestRedirectDoesNotTakeTheKeyAlong puts the key below a guard, as a run does.
func TestRedirectDoesNotTakeTheKeyAlong(t *testing.T) {
	hosts := []string{"youtube.googleapis.com", "www.googleapis.com"}
	for location, c := range map[string]struct{ hops, keys int }{
		"/other": {2, 2}, "https://www.googleapis.com/x": {2, 2},
		"http://youtube.googleapis.com/x": {1, 1}, "http://www.googleapis.com/x": {1, 1}, "https://evil.test/x": {1, 1},
		"http://evil.test/x": {1, 1},
	} {
		guard, err := quota.NewGuard(memledger.Open(nil),
			[]quota.Budget{{Account: "a", Name: "day", Limit: 10, Window: quota.Sliding(time.Hour)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wire := &sent{location: location}
		client := &http.Client{Transport: &quota.Transport{Guard: guard,
			Base: &youtube.KeyTransport{Key: func() (string, error) { return "key", nil }, Hosts: hosts, Base: wire},
			Price: func(r *http.Request) (quota.Call, error) {
				if !strings.HasSuffix(r.URL.Host, ".googleapis.com") {
					return quota.Call{}, quota.ErrUnguarded
				}
				return quota.Call{Account: "a", Method: "m", Units: 1}, nil
			}}}
		resp, err := client.Get("https://youtube.googleapis.com/x")
		if err == nil {
			resp.Body.Close()
		}
		keys := 0
		for _, r := range wire.requests {
			if r.Header.Get(youtube.KeyHeader) != "" && r.URL.Scheme == "https" {
				keys++
			}
		}
		if len(wire.requests) != c.hops || keys != c.keys || (c.hops == 1) != errors.Is(err, quota.ErrRedirect) {
			t.Errorf("to %s: %d hops, %d with the key, %v", location, len(wire.requests), keys, err)
		}
	}
}
