package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/servers"
)

// anyTable prices every path of its host.
const anyTable = `
version: 1
upstream: items
account: my-project
hosts: [api.example.com, "127.0.0.1:9"]
feedback: generic
routes: {"/{path...}": read}
costs: {read: 1}
budgets:
  - {name: day, limit: 100000, window: {sliding: 24h}}
`

// newProxy returns a gateway before an upstream, and what the upstream
// has seen.
func newProxy(t *testing.T, answer http.HandlerFunc) (*server, *upstream, *atomic.Pointer[http.Request]) {
	t.Helper()
	seen := &atomic.Pointer[http.Request]{}
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		if answer != nil {
			answer(w, r)
		}
	})
	return newServer(t, &gateway.Options{Endpoint: u.URL}, newClient(t, anyTable, t.TempDir(), u)), u, seen
}

// TestNoHeaderOfOneHopPasses: what is for the gateway, or for one hop, does not
// pass, in either direction.
func TestNoHeaderOfOneHopPasses(t *testing.T) {
	s, _, seen := newProxy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Ration-Refused-By", "the upstream")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header()["X-Two"] = []string{"a", "b"}
	})
	a := s.do("POST", "/to/api.example.com/x", "body", "Connection", "Ration-Job, X-Mine, Upgrade, HTTP2-Settings",
		"Ration-Job", "import", "Ration-Other", "x", "X-Mine", "1",
		"Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAAQAAP__", "Te", "trailers", "Proxy-Authorization", "Basic eA==",
		"X-Theirs", "2")
	if a.StatusCode != 200 || a.Header.Get("Ration-Refused-By") != "" || a.Header.Get("X-Hop") != "" ||
		len(a.Header.Values("X-Two")) != 2 {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	for name := range seen.Load().Header {
		switch name {
		case "X-Theirs", "Te", "Content-Length", "User-Agent", "Accept-Encoding":
		default:
			t.Errorf("the upstream saw %s: %q", name, seen.Load().Header[name])
		}
	}
	for _, extra := range []string{"Ration-Job: a\r\nRation-Job: b", "Ration-Max-Wait: soon",
		"Upgrade: websocket\r\nConnection: Upgrade"} {
		if resp, text := s.raw("GET /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\n" + extra +
			"\r\n\r\n"); resp.StatusCode != 422 && resp.StatusCode != 501 {
			t.Errorf("%s: %s %s", extra, resp.Status, text)
		}
	}
}

// TestEncodingsPassAsTheyAre: compressed bytes pass as they are, and an
// upstream is asked for encodings only in which an error can be read.
func TestEncodingsPassAsTheyAre(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	fmt.Fprint(zip, strings.Repeat("items ", 1000))
	zip.Close()
	s, _, seen := newProxy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(packed.Bytes())
	})
	for accepted, want := range map[string]string{"-": "-", "": "identity", "gzip": "gzip", "gzip, deflate, br": "gzip",
		"br": "identity", "*": "gzip", "*;q=0.5": "gzip;q=0.5", "gzip;q=0": "gzip;q=0",
		"gzip;q=0, *": "gzip;q=0", "br, identity;q=0.5, GZIP;q=0.8": "identity;q=0.5, GZIP;q=0.8"} {
		line := "Accept-Encoding: " + accepted + "\r\n"
		if accepted == "-" {
			line = ""
		}
		resp, text := s.raw("GET /to/api.example.com/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + line +
			"\r\n")
		got := strings.Join(seen.Load().Header["Accept-Encoding"], "|")
		if got == "" {
			got = "-"
		}
		if got != want || resp.Header.Get("Content-Encoding") != "gzip" || text != packed.String() {
			t.Errorf("%q: the upstream saw %q; want %q. %d bytes, %v", accepted, got, want, len(text), resp.Header)
		}
	}
}

// TestAnswersWithoutABodyPassAsTheyAre: HEAD, 204, 304 and 103 pass as they
// are.
func TestAnswersWithoutABodyPassAsTheyAre(t *testing.T) {
	s, _, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"1"`)
		switch r.URL.Path {
		case "/head":
			w.Header().Set("Content-Length", "1234")
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		case "/103":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			fmt.Fprint(w, "done")
		}
	})
	if a := s.do("HEAD", "/to/api.example.com/head", ""); a.StatusCode != 200 || a.ContentLength != 1234 ||
		a.text != "" {
		t.Errorf("HEAD: %s, %d bytes announced, %q", a.Status, a.ContentLength, a.text)
	}
	for _, status := range []int{204, 304} {
		if a := s.do("GET", fmt.Sprintf("/to/api.example.com/%d", status), ""); a.StatusCode != status ||
			a.Header.Get("Etag") != `"1"` || a.text != "" || len(a.TransferEncoding) > 0 {
			t.Errorf("%d: %s %v", status, a.Status, a.Header)
		}
	}
	var early []string
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			early = append(early, fmt.Sprint(code, h.Get("Link")))
			return nil
		}}), "GET", s.url+"/to/api.example.com/103", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); string(text) != "done" || len(early) != 1 ||
		early[0] != "103</to/api.example.com/style.css>" {
		t.Errorf("%q before %q", early, text)
	}
}

// TestNoContentTypeIsInvented: an answer without a Content-Type reaches the
// client without one. net/http guessed one from the body, such as text/html.
func TestNoContentTypeIsInvented(t *testing.T) {
	s, _, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		if r.URL.Path == "/typed" {
			w.Header().Set("Content-Type", "application/json")
		}
		fmt.Fprint(w, "<html>{}")
	})
	for path, want := range map[string]string{"/bare": "[]", "/typed": "[application/json]"} {
		if a := s.do("GET", "/to/api.example.com"+path, ""); fmt.Sprint(a.Header["Content-Type"]) != want ||
			a.text != "<html>{}" {
			t.Errorf("%s: %v %q; want %s", path, a.Header, a.text, want)
		}
	}
}

// TestAClientIsToldOnceToContinue: a client that asks first sends its body only
// if the upstream wants it, and not at all if the call is refused. The client
// is told once to go on: the upstream's 100 Continue used to pass beside the
// gateway's.
func TestAClientIsToldOnceToContinue(t *testing.T) {
	s, u, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		io.Copy(w, r.Body)
	})
	ask := func(path, header string) (*bufio.Reader, io.Writer) {
		conn := s.dial()
		fmt.Fprintf(conn,
			"POST /to/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n%s\r\n", path,
			header)
		return bufio.NewReader(conn), conn
	}
	for path, want := range map[string]int{"api.example.com/no": 417, "evil.example/x": 403} {
		reader, _ := ask(path, "")
		if resp, err := http.ReadResponse(reader, nil); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %v, %v; want %d without the body", path, resp, err, want)
		}
	}
	for _, header := range []string{"", "Ration-Max-Wait: 1s\r\n"} { // whose body is read ahead
		hits := u.hits.Load()
		reader, conn := ask("api.example.com/yes", header)
		if resp, err := http.ReadResponse(reader, nil); err != nil || resp.StatusCode != 100 {
			t.Fatalf("%q: %v, %v; want 100 Continue", header, resp, err)
		}
		io.WriteString(conn, "body")
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(text) != "body" ||
			u.hits.Load() != hits+1 {
			t.Errorf("%q: %s %q, %d hits; want 200 and the body back", header, resp.Status, text, u.hits.Load()-hits)
		}
	}
}

// TestLargeBodiesPassWhole: in both directions, announced and chunked.
func TestLargeBodiesPassWhole(t *testing.T) {
	s, _, seen := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		io.Copy(sum, r.Body)
		w.Header().Set("X-Sum", fmt.Sprintf("%x", sum.Sum(nil)))
		w.Write(bytes.Repeat([]byte("0123456789abcdef"), 1<<18))
	})
	body := bytes.Repeat([]byte("fedcba9876543210"), 1<<18)
	for _, announced := range []bool{true, false} {
		var reader io.Reader = bytes.NewReader(body)
		if !announced {
			reader = io.MultiReader(reader)
		}
		req, err := http.NewRequestWithContext(t.Context(), "PUT", s.url+"/to/api.example.com/x", reader)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(text) != len(body) || resp.Header.Get("X-Sum") != fmt.Sprintf("%x", sha256.Sum256(body)) ||
			(seen.Load().ContentLength == int64(len(body))) != announced {
			t.Errorf("announced %t: %v, %d bytes back, %d announced to the upstream", announced, err, len(text),
				seen.Load().ContentLength)
		}
	}
}

// TestRedirectsToGuardedHostsStayBehindTheGateway: redirects to guarded hosts
// lead back to it, and those to others pass.
func TestRedirectsToGuardedHostsStayBehindTheGateway(t *testing.T) {
	var location atomic.Value
	s, u, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/go/there" {
			w.Header().Set("Location", location.Load().(string))
			w.Header().Add("Link", "<"+location.Load().(string)+
				`>; rel="next"; title="a \", <b>", <https://elsewhere.example/x>;rel=help`)
			w.Header().Add("Link", "<"+location.Load().(string)+">")
			w.Header().Add("Link", `; "`)
			w.Header().Add("Link", `<https://api.example.com/x`)
			w.WriteHeader(http.StatusFound)
		}
	})
	for from, want := range map[string]string{
		"https://api.example.com/v1/a%2Fb?x=1;y#part": "/to/api.example.com/v1/a%2Fb?x=1;y#part",
		"https://api.example.com:443/x":               "/to/api.example.com/x",
		"http://api.example.com:80/x":                 "/to/api.example.com/x",
		"https://API.example.com":                     "/to/API.example.com/",
		"//api.example.com/y":                         "/to/api.example.com/y",
		"/other":                                      "/to/api.example.com/other",
		"next?page=2":                                 "/to/api.example.com/go/next?page=2",
		"?page=2":                                     "/to/api.example.com/go/there?page=2",
		u.URL + "/x":                                  "/to/api.example.com/x",
		"https://elsewhere.example/x":                 "https://elsewhere.example/x",
		"ftp://api.example.com/x":                     "ftp://api.example.com/x",
		"https://api.example.com:8443/x":              "https://api.example.com:8443/x",
	} {
		location.Store(from)
		a := s.do("GET", "/to/api.example.com/go/there", "")
		if got := a.Header.Get("Location"); got != want || a.StatusCode != 302 {
			t.Errorf("%s: %s, Location: %s; want %s", from, a.Status, got, want)
		} else if links := strings.Join(a.Header["Link"],
			"|"); links != "<"+want+`>; rel="next"; title="a \", <b>", <https://elsewhere.example/x>;rel=help|<`+want+
			`>|; "|<https://api.example.com/x` {
			t.Errorf("%s: Link: %s", from, links)
		} else if strings.HasPrefix(got, "/to/") && s.do("GET", got, "").StatusCode >= 400 {
			t.Errorf("%s: cannot be followed", got)
		}
	}
}

// TestLedgerThatHangsIsNotTheUpstream: a request whose charge is in doubt was
// answered as if the upstream had been slow, which was never called.
func TestLedgerThatHangsIsNotTheUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a Redis that hangs")
	}
	t.Parallel()
	redis := servers.StartRedis(t)
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	folder := t.TempDir()
	parsed, err := costs.Parse("costs.yaml", []byte(table))
	if err == nil {
		parsed, err = parsed.WithEndpoint("", u.URL)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(parsed, &client.Options{Ledger: redis.URL(), State: folder, Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	if a := s.do("GET", "/to/api.example.com/v1/items", ""); a.StatusCode != 200 {
		t.Fatal(a.Status, a.text)
	}
	redis.Hang(t)
	defer redis.GoOn(t)
	a := s.do("GET", "/to/api.example.com/v1/items", "")
	kind, _ := a.json["type"].(string)
	if a.StatusCode != 503 || kind != "urn:ration:in-doubt" && kind != "urn:ration:ledger-down" || u.hits.Load() != 1 {
		t.Errorf("%s %s, %d requests arrived; want that the ledger is in doubt, and one", a.Status, a.text,
			u.hits.Load())
	}
}
