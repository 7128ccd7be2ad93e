package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

// TestPlainHTTPGoesToInsecureHostsOnly: the gateway sends plain http, with the
// credential, to an insecure host of costs.yaml and to no other.
func TestPlainHTTPGoesToInsecureHostsOnly(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.Header.Get("Authorization"))
	})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(table, "hosts: [api.example.com]",
		"hosts: [vendor.internal, vendor.internal:8080, vm:8080, vm:8081, other.internal]", 1) +
		"insecure: [vendor.internal, Vendor.internal:8080, vm]\ncredential: {file: " + secret +
		", header: Authorization}\n"
	everywhere := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(u.URL, "http://"))
	}}
	s := newServer(t, &gateway.Options{Base: everywhere}, newClient(t, text, t.TempDir(), nil))
	for _, host := range []string{"vendor.internal", "vendor.internal:8080", "vm:8080", "vm:8081"} {
		if a := s.do("GET", "/to/"+host+"/v1/items", ""); a.text != host+" s3cret" {
			t.Errorf("%s: %s %s", host, a.Status, a.text)
		}
	}
	hits := u.hits.Load()
	if a := s.do("GET", "/to/other.internal/v1/items", ""); a.StatusCode != http.StatusBadGateway ||
		!strings.Contains(a.text, "insecure: [") || u.hits.Load() != hits {
		t.Errorf("other.internal: %s %s, %d requests in plain http", a.Status, a.text, u.hits.Load()-hits)
	}
}

// TestACredentialReachesItsHostAlone: it reaches its own host, however that is
// written, in place of the client's, and not the client; without it nothing is
// sent. Its file is read for each request.
func TestACredentialReachesItsHostAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen *http.Request
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Location", r.URL.RequestURI())
	})
	withCredential := func(credential string) (*server, *client.Client) {
		c := newClient(t, anyTable+"credential: "+credential+"\n", t.TempDir(), u)
		return newServer(t, &gateway.Options{Endpoint: u.URL}, c), c
	}
	inQuery, c := withCredential("{file: " + file + ", query: key}")
	inHeader, d := withCredential("{file: " + file + `, header: Authorization, prefix: "Bearer "}`)
	write("s&cret\n")
	for _, host := range []string{"api.example.com", "API.Example.com", "api.example.com:443", "api.example.com."} {
		a := inQuery.do("GET", "/to/"+host+"/x?b=%20;c&key=mine&%6Bey=mine&a", "")
		if seen.RequestURI != "/x?b=%20;c&a&key=s%26cret" ||
			!strings.HasSuffix(a.Header.Get("Location"), "/x?b=%20;c&a") {
			t.Errorf("%s: the upstream saw %s, the client %s", host, seen.RequestURI, a.Header.Get("Location"))
		}
		inHeader.do("GET", "/to/"+host+"/x", "", "Authorization", "Bearer mine", "Connection", "Authorization")
		if got := seen.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer s&cret" {
			t.Errorf("%s: the upstream saw %q", host, got)
		}
	}
	write("s3cret+1")
	for query, want := range map[string]string{
		"":                                  "?key=s3cret%2B1",
		"?b=%2f&key=theirs&a=&k%65y=again":  "?b=%2f&a=&key=s3cret%2B1",
		"?a=1;key=theirs":                   "?a=1&key=s3cret%2B1",
		"?key=theirs;a=1;b&k%65y;&;keys=1;": "?a=1;b;&;keys=1;&key=s3cret%2B1",
		"?&&key;key&key":                    "?&&key=s3cret%2B1",
	} {
		if inQuery.do("GET", "/to/api.example.com/x"+query, ""); seen.RequestURI != "/x"+want {
			t.Errorf("%s: the upstream saw %s; want %s", query, seen.RequestURI, want)
		}
	}
	before := u.hits.Load()
	for _, secret := range []string{"", "two\nlines", "-"} {
		if write(secret); secret == "-" {
			os.Remove(file)
		}
		for _, s := range []*server{inQuery, inHeader} {
			if a := s.do("GET", "/to/api.example.com/x", ""); a.StatusCode != 500 ||
				strings.Contains(a.text, "lines\"") || u.hits.Load() != before || used(t, c)+used(t, d) != int(before) {
				t.Errorf("%q: %s %s, %d used", secret, a.Status, a.text, used(t, c)+used(t, d))
			}
		}
	}
}

// TestAnUpstreamTellsTheClientNoCredential: an upstream that leads elsewhere
// with the query it got, or breaks the protocol with it, does not tell the
// client.
func TestAnUpstreamTellsTheClientNoCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("s&cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "%s|%s\r\n\r\n", r.RequestURI, r.FormValue("key"))
				conn.Close()
			}
			return
		}
		if r.URL.Path == "/signed" {
			http.Redirect(w, r, "https://files.example/x?key=reports%2F2026.csv&signature=1", http.StatusFound)
			return
		}
		if r.URL.Path == "/login" {
			http.Redirect(w, r, "https://login.example/?continue="+
				url.QueryEscape("https://api.example.com"+r.URL.RequestURI()), http.StatusFound)
			return
		}
		w.Header().Set("Link", "<https://elsewhere.example/hint?"+r.URL.RawQuery+">")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Location", "https://elsewhere.example/x?"+r.URL.RawQuery+"#part")
		w.Header().Set("Content-Location", r.RequestURI)
		w.Header().Set("Refresh", "0; url=https://elsewhere.example/?"+r.URL.RawQuery)
		w.Header().Set("Link", "<https://elsewhere.example?"+r.URL.RawQuery+">; rel=next")
		w.WriteHeader(http.StatusFound)
	})
	s := newServer(t, &gateway.Options{Endpoint: u.URL},
		newClient(t, anyTable+"credential: {file: "+file+", query: key}\n", t.TempDir(), u))
	a := s.do("GET", "/to/api.example.com/x?a=1", "")
	for name, want := range map[string]string{"Location": "https://elsewhere.example/x?a=1#part",
		"Content-Location": "/x?a=1", "Link": "<https://elsewhere.example?a=1>; rel=next",
		"Refresh": "0; url=https://elsewhere.example/?a=1"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	if a := s.do("GET", "/to/api.example.com/x", ""); a.Header.Get("Location") != "https://elsewhere.example/x#part" {
		t.Errorf("Location: %s", a.Header.Get("Location"))
	}
	for path, want := range map[string]string{
		"/signed": "https://files.example/x?key=reports%2F2026.csv&signature=1", // a parameter of the other host
		"/login":  "https://login.example/?continue=https%3A%2F%2Fapi.example.com%2Flogin%3Fkey%3D[hidden]",
	} {
		if got := s.do("GET", "/to/api.example.com"+path, "").Header.Get("Location"); got != want {
			t.Errorf("%s leads to %s; want %s", path, got, want)
		}
	}
	early, _ := s.raw("GET /to/api.example.com/x?a=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if got := early.Header.Get("Link"); early.StatusCode != 103 || got != "<https://elsewhere.example/hint?a=1>" {
		t.Errorf("%s, Link: %s", early.Status, got)
	}
	a = s.do("GET", "/to/api.example.com/broken", "")
	if detail, _ := a.json["detail"].(string); a.StatusCode != 502 || strings.Contains(detail, "cret") ||
		!strings.Contains(detail, "key=[hidden]|[hidden]") {
		t.Errorf("%s %s", a.Status, a.text)
	}
}

// TestHeadersWithUnderscoresAreDroppedToo: programs behind CGI or WSGI take
// X_Api_Key for X-Api-Key, so the gateway drops both.
func TestHeadersWithUnderscoresAreDroppedToo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen http.Header
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header })
	s := newServer(t, &gateway.Options{Endpoint: u.URL},
		newClient(t, anyTable+"credential: {file: "+file+", header: X-Api-Key}\n", t.TempDir(), u))
	s.do("GET", "/to/api.example.com/x", "", "X_Api_Key", "mine", "X-Api_Key", "mine", "Ration_Token", "mine",
		"X_Other", "mine")
	for name, values := range seen {
		if values[0] == "mine" && name != "X_other" || name == "X-Api-Key" && values[0] != "secret" {
			t.Errorf("the upstream saw %s: %s", name, values)
		}
	}
	if seen.Get("X-Api-Key") == "" || seen.Get("X_Other") == "" {
		t.Errorf("the upstream saw %s", seen)
	}
}

// TestRateLimitHeadersHaveTheirWindow: w is what a budget counts over, at least
// a second, and times are rounded up.
func TestRateLimitHeadersHaveTheirWindow(t *testing.T) {
	const head = "version: 1\nupstream: items\naccount: my-project\nhosts: [api.example.com]\nroutes: " +
		"{\"/{path...}\": read}\ncosts: {read: 1}\nbudgets:\n"
	for budget, want := range map[string]string{
		`{name: "a\"b\\é", limit: 5, window: {sliding: 24h}}`:            `"a\"b\\?";q=5;w=86400`,
		`{name: short, limit: 5, window: {sliding: 100ms}}`:              `"short";q=5;w=1`,
		`{name: day, limit: 5, window: {day: UTC}}`:                      `"day";q=5;w=86400`,
		`{name: two, limit: 5, window: {sliding: 1500ms}, count: calls}`: `"two";q=5;w=2`,
	} {
		s := newServer(t, nil, newClient(t, head+"  - "+budget, t.TempDir(), nil))
		a := s.do("POST", "/v1/spend", `{"method": "read"}`)
		if got := a.Header.Get("RateLimit-Policy"); a.StatusCode != 200 || got != want ||
			a.Header.Get("X-RateLimit-Limit") != "5" || a.Header.Get("X-RateLimit-Remaining") != "4" {
			t.Errorf("%s: %s %s", budget, got, a.text)
		}
	}
}

// TestACooldownHoldsNoCredential: an upstream that names the keys in its
// refusal does not put them into the cooldown, which all programs read.
func TestACooldownHoldsNoCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up.key")
	if err := os.WriteFile(file, []byte("shortsecret99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"message":"quota for key shortsecret99 is spent, api_key abc123secret, Bearer tok999"}`)
	})
	c := newClient(t, anyTable+"credential: {file: "+file+`, header: Authorization, prefix: "Bearer "}`+"\n",
		t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	s.do("GET", "/to/api.example.com/x", "")
	cooldowns := s.do("GET", "/v1/cooldowns", "")
	refused := s.do("GET", "/to/api.example.com/x", "")
	if !strings.Contains(cooldowns.text, "quota for key [hidden] is spent") || u.hits.Load() != 1 {
		t.Errorf("%s, %d requests; want the reason with [hidden], and one request", cooldowns.text, u.hits.Load())
	}
	told := cooldowns.text + refused.text + fmt.Sprint(c.Unexplained())
	for _, secret := range []string{"shortsecret99", "abc123secret", "tok999"} {
		if strings.Contains(told, secret) {
			t.Errorf("%s is in %s", secret, told)
		}
	}
}
