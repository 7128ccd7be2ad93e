package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/gateway"
)

// TestModelInTheBodyChoosesTheMethod: the gateway charges the method of the
// model, and the upstream gets the body as it was sent.
func TestModelInTheBodyChoosesTheMethod(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	c := newClient(t, strings.NewReplacer(
		"POST /v1/items: items.insert", `POST /v1/chat: {body: model, is: {"large*": large}, or: items.get}`,
		"items.insert: 40", "large: 30",
	).Replace(table), t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	for _, c := range []struct {
		body   string
		status int
	}{
		{`{"messages":[1,2],"model":"large-2026"}`, 200},
		{`{"model":"small"}`, 200},
		{`{"model":"large","model":"small"}`, 422},
	} {
		if a := s.do("POST", "/to/api.example.com/v1/chat", c.body); a.StatusCode != c.status || c.status == 200 &&
			a.text != c.body {
			t.Errorf("%s: %s %s", c.body, a.Status, a.text)
		}
	}
	resp, text := s.raw("POST /to/api.example.com/v1/chat HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.url, "http://") +
		"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"model\":\"large\"}\r\n0\r\n\r\n")
	if resp.StatusCode != 200 || text != `{"model":"large"}` {
		t.Errorf("chunked: %s %s", resp.Status, text)
	}
	if got := used(t, c); got != 61 {
		t.Errorf("%d used; want two large ones and a small one", got)
	}
}
