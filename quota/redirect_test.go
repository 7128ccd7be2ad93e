package quota_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// hop is one request of a chain of redirects, as it was sent.
type hop struct {
	url    string
	header http.Header
}

// redirecting is a network of hosts in which each URL of a chain redirects to
// the next.
func redirecting(hops *[]hop, chain ...string) tripper {
	return func(r *http.Request) (*http.Response, error) {
		*hops = append(*hops, hop{r.URL.String(), r.Header})
		at := len(*hops)
		resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")),
			Request: r}
		if at < len(chain) {
			resp.StatusCode = http.StatusTemporaryRedirect
			resp.Header.Set("Location", chain[at])
		}
		return resp, nil
	}
}

// guardedHosts prices the requests to those hosts, and no others.
func guardedHosts(hosts string) func(*http.Request) (quota.Call, error) {
	return func(r *http.Request) (quota.Call, error) {
		if !strings.Contains(" "+hosts+" ", " "+strings.ToLower(r.URL.Hostname())+" ") {
			return quota.Call{}, quota.ErrUnguarded
		}
		return quota.Call{Account: account, Method: "m", Units: 1}, nil
	}
}

// redirects are chains of requests, and what may be sent along each.
var redirects = []struct {
	name  string
	chain string
	sent  int    // hops
	says  string // the error, or empty
	kept  bool   // the last hop has the caller's own headers
}{
	{"the same host", "https://a.test/1 https://a.test/2", 2, "", true},
	{"the same host, written otherwise", "https://a.test/1 https://A.test:443/2", 2, "", true},
	{"from http to https", "http://a.test/1 https://a.test/2", 2, "", true},
	{"another guarded host", "https://a.test/1 https://b.test/2", 2, "", false},
	{"another port", "https://a.test/1 https://a.test:8443/2", 2, "", false},
	{"http to http elsewhere", "http://a.test/1 http://b.test/2", 2, "", false},
	{"elsewhere and back", "https://a.test/1 https://b.test/2 https://a.test/3", 3, "", true},
	{"elsewhere and on", "https://a.test/1 https://b.test/2 https://b.test/3", 3, "", false},
	{"a host that is not guarded", "https://a.test/1 https://evil.test/2", 1, `"evil.test"`, false},
	{"a host whose name ends so", "https://a.test/1 https://evil.a.test/2", 1, `"evil.a.test"`, false},
	{"not guarded, later", "https://a.test/1 https://b.test/2 https://evil.test/3", 2, `"evil.test"`, false},
	{"from https to http", "https://a.test/1 http://a.test/2", 1, "http://a.test", false},
	{"from https to http elsewhere", "https://a.test/1 http://b.test/2", 1, "http://b.test", false},
	{"from https to http, later", "https://a.test/1 https://b.test/2 http://b.test/3", 2, "http://b.test", false},
	{"from https to a loopback address", "https://a.test/1 http://127.0.0.1:80/2", 2, "", false},
	{"from https to another", "https://a.test/1 http://[::1]/2", 2, "", false},
	{"from https to localhost", "https://a.test/1 http://localhost./2", 2, "", false},
	{"from what is not guarded to what is", "https://free.test/1 https://a.test/2", 2, "", false},
	{"within what is not guarded", "https://free.test/1 http://free.test/2", 2, "", true},
	{"out of it again", "https://free.test/1 https://a.test/2 https://free.test/3", 2, `"free.test"`, false},
}

// TestARedirectForwardsNoCredentials follows chains of redirects.
func TestARedirectForwardsNoCredentials(t *testing.T) {
	for _, c := range redirects {
		t.Run(c.name, func(t *testing.T) {
			chain := strings.Fields(c.chain)
			var hops []hop
			guard := newGuard(t, nil, budget("day", 100, time.Hour))
			client := &http.Client{Transport: &quota.Transport{Guard: guard,
				Price: guardedHosts("a.test b.test 127.0.0.1 ::1 localhost."), Base: redirecting(&hops, chain...)}}
			req, _ := http.NewRequest("GET", chain[0], nil)
			secrets := []string{"Authorization", "Cookie", "X-Api-Key", "X-Goog-Api-Key", "Proxy-Authorization",
				"X-Anything"}
			for _, name := range secrets {
				req.Header.Set(name, "secret")
			}
			req.Header.Set("Accept", "application/json")
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if len(hops) != c.sent || (err != nil) != (c.says != "") {
				t.Fatalf("%d hops, %v; want %d", len(hops), err, c.sent)
			}
			if c.says != "" && (!errors.Is(err, quota.ErrRedirect) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v; want an ErrRedirect that names %s", err, c.says)
			}
			charged := quota.Units(0)
			for _, hop := range hops {
				if !strings.Contains(hop.url, "free.test") {
					charged++
				}
			}
			if used(t, guard) != charged {
				t.Errorf("%d units; want %d", used(t, guard), charged)
			}
			last := hops[len(hops)-1]
			if last.header.Get("Accept") == "" {
				t.Error("a harmless header is missing")
			}
			if len(hops) == 1 {
				return
			}
			for _, name := range secrets {
				has := last.header.Get(name) != ""
				if has && !c.kept || !has && c.kept && strings.HasPrefix(name, "X-") {
					t.Errorf("%s at %s: %t", name, last.url, has)
				}
			}
			if !c.kept && last.header.Get("Referer") != "" {
				t.Error("the address that redirected, with its query, went to another host")
			}
		})
	}
}

// TestARedirectWithoutOriginForwardsNoKey: a base that does not set
// Response.Request must not hide the origin of a redirect.
func TestARedirectWithoutOriginForwardsNoKey(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 100, time.Hour))
	transport := &quota.Transport{Guard: guard, Price: priced(1)}
	req := httptest.NewRequest("GET", up.URL+"/m", nil)
	req.RequestURI = ""
	req.Header.Set("X-Api-Key", "secret")
	req.Response = &http.Response{}
	up.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "" {
			t.Error("the key went on")
		}
	})
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	transport.Price = func(*http.Request) (quota.Call, error) { return quota.Call{}, quota.ErrUnguarded }
	if _, err := transport.RoundTrip(req); !errors.Is(err, quota.ErrRedirect) {
		t.Errorf("to a host that is not guarded: %v", err)
	}
}
