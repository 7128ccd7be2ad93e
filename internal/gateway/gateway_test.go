package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

const table = `
version: 1
upstream: items
account: my-project
hosts: [api.example.com]
feedback: generic
routes:
  GET /v1/items: items.list
  GET /v1/items/{id}: items.get
  POST /v1/items: items.insert
costs: {items.list: 1, items.get: 1, items.insert: 40}
budgets:
  - {name: day, limit: 100, window: {sliding: 24h}}
`

// upstream is a real server that counts what reaches it.
type upstream struct {
	*httptest.Server
	hits atomic.Int64
}

func newUpstream(t *testing.T, answer http.HandlerFunc) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.hits.Add(1)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// newClient opens a client of a table in a folder.
func newClient(t *testing.T, text, folder string, at *upstream) *client.Client {
	t.Helper()
	parsed, err := costs.Parse("costs.yaml", []byte(text))
	if err == nil && at != nil {
		parsed, err = parsed.WithEndpoint("", at.URL)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(parsed, &client.Options{Ledger: "sqlite:" + folder + "/ledger.db", State: folder,
		Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// server is a gateway behind a real listener.
type server struct {
	*gateway.Gateway
	t   *testing.T
	url string
}

func newServer(t *testing.T, o *gateway.Options, c *client.Client) *server {
	t.Helper()
	g := gateway.New(o)
	g.Use(c)
	return serve(t, g, gateway.Serve)
}

func serve(t *testing.T, g *gateway.Gateway,
	serve func(context.Context, net.Listener, http.Handler, time.Duration) error) *server {
	t.Helper()
	listener, base, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, listener, g, 5*time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &server{g, t, base}
}

// dial returns a connection to the server, with a deadline against a test
// that hangs.
func (s *server) dial() *net.TCPConn {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn.(*net.TCPConn)
}

// raw sends a request as it is written and returns the answer.
func (s *server) raw(request string) (*http.Response, string) {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%q: %v", request, err)
	}
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

// answer is what the gateway answered.
type answer struct {
	*http.Response
	text string
	json map[string]any
}

// do sends a request; header holds names and values.
func (s *server) do(method, path, body string, header ...string) *answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &answer{resp, string(data), nil}
	_ = json.Unmarshal(data, &a.json)
	if err := newSpecification(s.t).check(req, body, resp, a.text); err != nil {
		s.t.Errorf("%s %s: %s %s: %v", method, path, resp.Status, a.text, err)
	}
	return a
}

// used returns what the budget day holds.
func used(t testing.TB, c *client.Client) int {
	t.Helper()
	balances, err := c.Guard().Balances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(balances[0].Used)
}

// TestProblemsNameNoPackage: "quota: " says nothing to a program in another
// language.
func TestProblemsNameNoPackage(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	for path, body := range map[string]string{"/v1/spend": `{"method": "items.list", "calls": -3}`,
		"/v1/grants/none/report": `{"status": 200}`} {
		a := s.do("POST", path, body)
		if detail, _ := a.json["detail"].(string); detail == "" || strings.Contains(a.text, "quota: ") ||
			a.Header.Get("Ration-Detail") != detail {
			t.Errorf("%s %s: %s %s, %v", path, body, a.Status, a.text, a.Header)
		}
	}
}

// TestAValueOfAWrongTypeIsNamedByItsKey: a value of the wrong type is named by
// its key, not by a type of Go.
func TestAValueOfAWrongTypeIsNamedByItsKey(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	for body, want := range map[string]string{
		`{"method": "items.list", "units": 1e3}`: "units has the wrong type: number 1e3; see /v1/openapi.json",
		`{"method": 5}`:                          "method has the wrong type: number; see /v1/openapi.json",
		`{"method": "items.list", "nuits": 1}`:   `the body is malformed: unknown field "nuits"; see /v1/openapi.json`,
		`["items.list"]`:                         "the body has the wrong type: array; see /v1/openapi.json",
	} {
		if a := s.do("POST", "/v1/spend", body); a.StatusCode != 400 || a.json["detail"] != want {
			t.Errorf("%s: %s %v; want %s", body, a.Status, a.json["detail"], want)
		}
	}
}

// TestProxyChargesAndRefuses: requests reach the upstream without what is for
// the gateway, and refused ones do not reach it.
func TestProxyChargesAndRefuses(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		w.Header().Set("X-Upstream", "yes")
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.RequestURI())
	})
	c := newClient(t, table, t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	a := s.do("GET", "/to/api.example.com/v1/items?q=a%2Fb&q=c+d", "", "Ration-Job", "import", "Ration-Region", "north",
		"Authorization", "Bearer theirs", "User-Agent", "")
	if a.StatusCode != 200 || a.text != "GET /v1/items?q=a%2Fb&q=c+d" || a.Header.Get("X-Upstream") != "yes" ||
		used(t, c) != 1 {
		t.Fatalf("%s %q, %d used", a.Status, a.text, used(t, c))
	}
	if r := seen.Load(); r.Header.Get("Ration-Job") != "" || r.Header.Get("Authorization") != "Bearer theirs" ||
		r.Header.Get("User-Agent") != "" || r.Header.Get("X-Forwarded-For") != "" {
		t.Errorf("the upstream saw %v", r.Header)
	}
	grant, err := c.Guard().Redeem(a.Header.Get("Ration-Grant"))
	if err != nil || grant.Call().Units != 1 {
		t.Errorf("the answer's grant is %q: %v", a.Header.Get("Ration-Grant"), err)
	}
	for range 2 {
		s.do("POST", "/to/api.example.com/v1/items", "{}")
	}
	hits := u.hits.Load()
	refused := s.do("POST", "/to/api.example.com/v1/items", "{}")
	if refused.StatusCode != 429 || refused.Header.Get("Ration-Refused-By") != "day" ||
		refused.Header.Get("Retry-After") == "" || u.hits.Load() != hits {
		t.Errorf("%s %s, %d hits; want a refusal before the wire", refused.Status, refused.text, u.hits.Load()-hits)
	}
	for path, status := range map[string]int{"/to/example.org/x": 403, "/to/api.example.com/v1/unknown": 422,
		"/to/": 400, "/to/user@api.example.com/v1/items": 400, "/v1/none": 404, "/none": 404} {
		if a := s.do("GET", path, ""); a.StatusCode != status ||
			a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s %s; want %d", path, a.Status, a.text, status)
		}
	}
	if a := s.do("GET", "/to/api.example.com/v1/items", "", "Connection", "Upgrade", "Upgrade",
		"websocket"); a.StatusCode != 501 {
		t.Errorf("WebSocket: %s", a.Status)
	}
	if u.hits.Load() != hits {
		t.Errorf("%d more requests reached the upstream", u.hits.Load()-hits)
	}
}

// TestOtherSitesAndStrangersAreTurnedAway: other names, other sites and, with a
// token, everybody else.
func TestOtherSitesAndStrangersAreTurnedAway(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization")+r.Header.Get("Ration-Token"))
	})
	c := newClient(t, table, t.TempDir(), u)
	open, closed := newServer(t, &gateway.Options{Endpoint: u.URL}, c),
		newServer(t, &gateway.Options{Endpoint: u.URL, Token: "secret"}, c)
	spend := `{"method": "items.list"}`
	for _, test := range []struct {
		s      *server
		header []string
		status int
	}{
		{open, nil, 200},
		{open, []string{"Host", "localhost:1"}, 200},
		{open, []string{"Host", "evil.example"}, 421},
		{open, []string{"Origin", "https://evil.example"}, 403},
		{open, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{open, []string{"Ration-Token", "ration_gone"}, 401},
		{open, []string{"Content-Type", "text/plain"}, 415},
		{closed, nil, 401},
		{closed, []string{"Authorization", "Bearer wrong"}, 401},
		{closed, []string{"Authorization", "Bearer secret"}, 200},
		{closed, []string{"Ration-Token", "secret"}, 200},
	} {
		if a := test.s.do("POST", "/v1/spend", spend, test.header...); a.StatusCode != test.status {
			t.Errorf("%q: %s %s; want %d", test.header, a.Status, a.text, test.status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := closed.do("GET", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %s %s; want 200 without the token", path, a.Status, a.text)
		}
	}
	if a := closed.do("GET", "/to/api.example.com/v1/items", "", "Authorization",
		"Bearer secret"); a.StatusCode != 200 || a.text != "" {
		t.Errorf("%s, the upstream saw %q; want nothing of the token", a.Status, a.text)
	}
	if a := closed.do("GET", "/to/api.example.com/v1/items", "", "Authorization", "Bearer theirs", "Ration-Token",
		"secret"); a.StatusCode != 200 || a.text != "Bearer theirs" {
		t.Errorf("%s, the upstream saw %q; want the client's own", a.Status, a.text)
	}
}

// TestReportOfADecodedBodyIsUnderstood: most programs decode a body and report
// it beside the Content-Encoding that it had. The cost in it was not charged,
// and a spent quota not noticed.
func TestReportOfADecodedBodyIsUnderstood(t *testing.T) {
	c := newClient(t, strings.Replace(table, "feedback: generic", "feedback: openai", 1), t.TempDir(), nil)
	s := newServer(t, nil, c)
	for _, report := range []struct {
		status     int
		body, want string
	}{
		{200, `{\"usage\":{\"total_tokens\":40}}`, `{"units":40,"cooldown":null`},
		{403, `{\"error\":{\"code\":\"rate_limit_exceeded\"}}`, `{"units":1,"cooldown":{"account":"my-project"`},
	} {
		grant, _ := s.do("POST", "/v1/spend", `{"method":"items.get"}`).json["grant"].(string)
		a := s.do("POST", "/v1/grants/"+grant+"/report",
			fmt.Sprintf(`{"status":%d,"headers":{"Content-Type":"application/json","Content-Encoding":"gzip"},`+
				`"body":"%s"}`, report.status, report.body))
		if !strings.HasPrefix(a.text, report.want) {
			t.Errorf("%s: %s; want %s", report.body, a.text, report.want)
		}
	}
}
