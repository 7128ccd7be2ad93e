package gateway_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/internal/gateway"
)

// TestATargetIsNotChanged: a target reaches the upstream byte for byte, or is
// refused as package client would refuse it, and is never redirected.
func TestATargetIsNotChanged(t *testing.T) {
	s, u, seen := newProxy(t, nil)
	for target, status := range map[string]int{
		"/v1/items": 200, "/": 200, "": 200, "/v1//items": 200, "/v1/items/": 200, "/v1/a%2Fb": 200, "/v1/a%2fb": 200,
		"/v1/%7Euser": 200, "/v1/it;v=2": 200,
		"/v1/items?": 200, "/v1/items?a=1;b=2&c=%20+%zz": 200, "/v1/items?a=/../x": 200, "//v1": 200,
		"/v1/items?x=//": 200,
		"/v1/../items":   422, "/v1/./items": 422, "/v1/%2e%2e/items": 422, "/v1/..%2Fitems": 422, "/v1/..;/x": 422,
	} {
		hits := u.hits.Load()
		resp, text := s.raw("GET /to/api.example.com" + target +
			" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
		want := target
		if !strings.HasPrefix(target, "/") {
			want = "/" + target
		}
		if resp.StatusCode != status || status != 200 && u.hits.Load() != hits || status == 200 &&
			seen.Load().RequestURI != want {
			t.Errorf("%s: %s %s; the upstream saw %s", target, resp.Status, text, seen.Load().RequestURI)
		}
	}
}

// TestAWrongTargetIsNotSent: what is not a guarded host does not leave the
// gateway.
func TestAWrongTargetIsNotSent(t *testing.T) {
	s, u, _ := newProxy(t, nil)
	for line, status := range map[string]int{
		"GET /to/user@api.example.com/x": 400, "GET /to/user:pw@api.example.com/x": 400, "GET /to//x": 400,
		"GET /to/:80/x": 400, "GET /to/https://api.example.com/x": 400,
		"GET /to/api.example.com%2Fx/y": 400, "GET /to/api.example.com:8443/x": 403,
		"GET /to/api.example.com:99999x/x": 400, "GET /to/api%2Eexample.com/x": 400,
		"GET /to/evil.example/x": 403, "GET /to/127.0.0.1:1/x": 403, "GET /to/[::1]/x": 403, "GET /to": 404,
		"GET /%74o/api.example.com/x": 404, "GET //to/api.example.com/x": 404,
		"GET /v1/../to/api.example.com/x": 404, "POST //v1/spend": 404, "GET http://127.0.0.1/none": 404,
		"GET http://api.example.com/v1/items": 501,
		"CONNECT api.example.com:443":         501, "CONNECT 127.0.0.1:443": 501, "TRACE /to/api.example.com/x": 501,
		"GET /v1/spend": 405, "PUT /v1/cooldowns": 405,
		"GET /to/API.Example.com:443/x": 200, "GET /to/api.example.com./x": 200,
		"GET http://localhost/to/api.example.com/x": 200,
	} {
		hits := u.hits.Load()
		resp, text := s.raw(line + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
		isProblem := resp.Header.Get("Content-Type") == "application/problem+json"
		if resp.StatusCode != status || (u.hits.Load() == hits) != (status != 200) || isProblem != (status != 200) {
			t.Errorf("%s: %s %s, %d hits; want %d", line, resp.Status, text, u.hits.Load()-hits, status)
		}
		if status == 405 && !strings.Contains(resp.Header.Get("Allow"), "POST") {
			t.Errorf("%s: Allow: %s", line, resp.Header.Get("Allow"))
		}
		if isForwarded := strings.Contains(line, "CONNECT") || strings.Contains(line, "/v1/items"); isForwarded &&
			!strings.Contains(text, "not a forward proxy") {
			t.Errorf("%s: %s; want that the gateway is not a forward proxy", line, text)
		}
	}
}

// FuzzTarget: whatever a request's target is, it reaches the upstream as it is
// and is charged once, or does not reach it.
func FuzzTarget(f *testing.F) {
	var seen atomic.Value
	var hits atomic.Int64
	u := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		seen.Store(r.RequestURI)
	}))
	f.Cleanup(u.Close)
	c := newMemoryClient(f, anyTable, u.URL)
	g := gateway.New(&gateway.Options{Endpoint: u.URL})
	g.Use(c)
	for _, seed := range []string{"v1/items", "", "/", "a//b?c=d;e&f", "a%2Fb", "../x", "a?", "%zz", "ü", "{x}", "a b",
		"a\\b", "#x", "a%00b", "http://x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		r,
			err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET /to/api.example.com/" + target +
			" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")))
		if err != nil || strings.ContainsAny(target, "\r\n") {
			return
		}
		before, charged := hits.Load(), used(t, c)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r.WithContext(t.Context()))
		sent, now := hits.Load()-before, used(t, c)-charged
		if int(sent) != now || sent > 1 || (sent == 0) != (w.Code >= 400) || w.Code >= 300 && w.Code < 400 {
			t.Fatalf("%q: %d, sent %d, charged %d", target, w.Code, sent, now)
		}
		legal := !strings.ContainsFunc(target,
			func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"<>\^{|}#`+"`", r) })
		if path := seen.Load(); sent == 1 && legal && path != "/"+target {
			t.Fatalf("%q reached the upstream as %q", target, path)
		}
	})
}
