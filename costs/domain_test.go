package costs_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// TestNoOtherHostReachesYouTubeUnguarded: hosts and paths that reach YouTube's
// quota without being in hosts are refused; Google's others are not.
func TestNoOtherHostReachesYouTubeUnguarded(t *testing.T) {
	table := use(t, uses["youtube/2026-06"])
	for _, alias := range []string{"content.googleapis.com/youtube/v3/search",
		"CONTENT.GoogleAPIs.com.:443/youtube/v3/search", "content.googleapis.com:8443/youtube/v3/search",
		"googleapis.com/youtube/v3/videos",
		"youtube.us-east1.rep.googleapis.com/youtube/v3/search", "content.googleapis.com/upload/youtube/v3/videos",
		"content.googleapis.com/youtube/v3/videos:batchGetStats", "content.googleapis.com/batch/youtube/v3",
		"content.googleapis.com/batch", "content.googleapis.com//youtube/v3/search",
		"content.googleapis.com/x/../youtube/v3/search", "content.googleapis.com/%79outube/v3/search",
		"content.googleapis.com/youtube%252Fv3/search",
		"content.googleapis.com/YouTube/V3/search", "content.googleapis.com/youtube;a/v3/search",
		"content.googleapis.com/youtube/v3", "youtube.clients6.google.com/youtube/v3/search",
		"clients6.google.com/youtube/v3/search"} {
		if found, err := table.Quote("GET", "https://"+alias); !errors.Is(err, costs.ErrNoRoute) {
			t.Errorf("%s: %+v, %v; want it refused", alias, found, err)
		}
	}
	for _, other := range []string{"storage.googleapis.com/bucket/youtube", "oauth2.googleapis.com/token",
		"content.googleapis.com/drive/v3/files", "content.googleapis.com/youtubeAnalytics/v2/reports",
		"www.google.com/youtube/v3/search", "notgoogleapis.com/youtube/v3/search"} {
		if found, err := table.Quote("GET", "https://"+other); err != nil || found.Guarded {
			t.Errorf("%s: %+v, %v; want it sent without a charge", other, found, err)
		}
	}
	if _, err := load(t).Quote("GET", "https://content.googleapis.com/youtube/v3/search"); !errors.Is(err,
		costs.ErrNoRoute) {
		t.Errorf("the shipped file: %v", err)
	}
}

const ownHosts = `hosts: [%s]
routes: {"/{path...}": call}
costs: {call: 1}
budgets: [{name: all, limit: 10, window: 1h}]
`

func TestUnknownHostsOfAGuardedDomainAreRefusedUnlessListed(t *testing.T) {
	for _, c := range []struct{ hosts, lines, refused, passes string }{
		{"api.example.com", "", "eu.api.example.com www.example.com example.com a.b.example.com api.example.com:8443",
			"example.org notexample.com example.com.org com"},
		{"api.example.com", "unguarded: [www.example.com]", "cdn.example.com x.www.example.com",
			"www.example.com WWW.Example.com. www.example.com:8443"},
		{"api.example.com", "domains: [api.example.com]", "eu.api.example.com", "www.example.com example.com"},
		{"api.example.com", "domains: [example.com, example.net]", "www.example.com a.example.net example.net",
			"example.org"},
		{"api.example.com", "domains: []", "api.example.com:8443", "eu.api.example.com www.example.com"},
		{"api.example.co.uk", "", "www.example.co.uk", "other.co.uk"},
		{"me.github.io", "", "x.me.github.io", "you.github.io"},
		{"a.example.com, b.example.org", "", "c.example.com c.example.org", "a.example.net"},
		{"localhost", "", "localhost:8443", "x.localhost example.com"},
		{"127.0.0.1", "", "127.0.0.1:8443", "127.0.0.2 0.0.1 1.127.0.0.1.example"},
		{"\"[::1]\"", "", "", "[::2]"},
		{"api.example.com:8443", "", "api.example.com", "example.org"},
	} {
		table := use(t, strings.Replace(ownHosts, "%s", c.hosts, 1)+c.lines)
		for _, host := range strings.Fields(c.refused) {
			for name, req := range map[string]*http.Request{
				"URL": {Method: "GET", URL: &url.URL{Scheme: "https", Host: host, Path: "/x"}},
				"Host header": {Method: "GET", Host: host,
					URL: &url.URL{Scheme: "https", Host: "203.0.113.1", Path: "/x"}},
				"URL with another Host": {Method: "GET", Host: "example.edu",
					URL: &url.URL{Scheme: "https", Host: host, Path: "/x"}},
				"opaque URL": {Method: "GET",
					URL: &url.URL{Scheme: "https", Host: host, Opaque: "//" + host + "/x"}},
			} {
				if call, err := table.Price(req); !errors.Is(err, costs.ErrNoRoute) {
					t.Errorf("hosts: %s, %s: %s in %s: %+v, %v", c.hosts, c.lines, host, name, call, err)
				}
			}
		}
		for _, host := range strings.Fields(c.passes) {
			if _, err := table.Price(get(t, "https://"+host+"/x")); !errors.Is(err, quota.ErrUnguarded) {
				t.Errorf("hosts: %s, %s: %s: %v; want it sent without a charge", c.hosts, c.lines, host, err)
			}
		}
	}
}

// A host of one document may be in the domain of another, whose unguarded
// hosts hold for the whole file.
func TestDomainsOfSeveralDocumentsHoldTogether(t *testing.T) {
	doc := func(name, hosts, lines string) string {
		return "version: 1\naccount: " + name + "\n" + strings.Replace(ownHosts, "%s", hosts, 1) + lines
	}
	table := parse(t, doc("a", "api.example.com", "unguarded: [www.example.com]\n")+"---\n"+doc("b", "b.example.com",
		"")+"---\nversion: 1\naccount: y\npreset: youtube/legacy\n---\n"+
		"version: 1\naccount: d\n"+strings.Replace(ownHosts, "%s", "drive.googleapis.com", 1)+
		"domains: [googleapis.com]\n")
	for host, want := range map[string]error{"api.example.com": nil, "b.example.com": nil,
		"www.example.com": quota.ErrUnguarded, "c.example.com": costs.ErrNoRoute,
		"drive.googleapis.com": nil, "storage.googleapis.com": costs.ErrNoRoute} {
		if _, err := table.Price(get(t, "https://"+host+"/x")); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", host, err, want)
		}
	}
}

func TestParseReportsAllMistakesInDomains(t *testing.T) {
	const hosts = "hosts: [youtube.googleapis.com]"
	const form = ` is not the name of a domain or host: write one such as example.com, without scheme, port, path ` +
		`or wildcard`
	expect(t, valid, []mistake{
		{hosts, hosts + "\ndomains: [com, co.uk, localhost, 10.0.0.1, \"a.b:80\", https://a.b, \"*.a.b\", .a.b]",
			`7:11: "com"` + form + "\n" + `7:16: "co.uk"` + form + "\n" + `7:23: "localhost"` + form + "\n" +
				`7:34: "10.0.0.1"` + form + "\n" + `7:44: "a.b:80"` + form + "\n" + `7:54: "https://a.b"` + form +
				"\n" +
				`7:67: "*.a.b"` + form + "\n" + `7:76: ".a.b"` + form},
		{hosts, hosts + "\nunguarded: [youtube.googleapis.com]",
			"7:13: host youtube.googleapis.com is in hosts as well: remove it here or there"},
		{hosts, hosts + "\nunguarded: [a.example.com]",
			"7:13: host a.example.com is in none of the guarded domains (googleapis.com, clients6.google.com), so " +
				"its requests are sent without a charge: remove it"},
		{hosts, hosts + "\nunguarded: [a.googleapis.com, A.googleapis.com]",
			"7:31: host a.googleapis.com is repeated: remove one"},
	})
}

func TestHeadIsPricedLikeGet(t *testing.T) {
	table := use(t, `hosts: [api.example.com]
routes:
  GET /v1/items/{id}: items.get
  GET /v1/reports: reports.get
  HEAD /v1/reports: reports.head
  GET /v1/{path...}: read
  POST /v1/{path...}: write
  /{path...}: call
costs: {items.get: 50, reports.get: 60, reports.head: 2, read: 5, write: 9, call: 1}
budgets: [{name: all, limit: 100, window: 1h}]`)
	for request, want := range map[string]string{"HEAD /v1/items/7": "items.get", "HEAD /v1/reports": "reports.head",
		"HEAD /v1/x": "read", "HEAD /x": "call", "OPTIONS /v1/items/7": "call", "POST /v1/items/7": "write"} {
		verb, path, _ := strings.Cut(request, " ")
		if found, err := table.Quote(verb, "https://api.example.com"+path); err != nil || found.Call.Method != want {
			t.Errorf("%s: %+v, %v; want %s", request, found, err, want)
		}
	}
	for _, request := range []string{"head /v1/items/7", "Head /v1/items/7"} {
		verb, path, _ := strings.Cut(request, " ")
		if found, err := table.Quote(verb, "https://api.example.com"+path); !errors.Is(err, costs.ErrNoRoute) {
			t.Errorf("%s: %+v, %v", request, found, err)
		}
	}
}

// TestLoopbackIsGuardedByEachOfItsNames: an upstream on this machine was not
// guarded by its other names, so that http://localhost:8080 was sent without a
// charge beside hosts: ["127.0.0.1:8080"].
func TestLoopbackIsGuardedByEachOfItsNames(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
account: a
hosts: ["127.0.0.1:8080", localhost]
routes: {"/{path...}": call}
costs: {call: 1}
budgets: [{name: b, limit: 9, window: 1h}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]error{
		"127.0.0.1:8080": nil, "localhost:80": nil,
		"localhost:8080": costs.ErrNoRoute, "[::1]:8080": costs.ErrNoRoute, "LOCALHOST.:8080": costs.ErrNoRoute,
		"127.0.0.1":      costs.ErrNoRoute,
		"127.0.0.1:8081": quota.ErrUnguarded, "127.0.0.2:8080": quota.ErrUnguarded,
		"example.com:8080": quota.ErrUnguarded,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+host+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Price(req); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", host, err, want)
		}
	}
}
