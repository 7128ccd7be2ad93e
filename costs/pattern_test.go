package costs_test

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"pgregory.net/rapid"
)

// shop has one expensive route, and one that matches everything else.
const shop = `version: 1
account: a
hosts: [shop.example]
unlisted: 1
routes:
  POST /admin/{version}/graphql.json: graphql
  /admin/{version}/graphql.json: other
  GET /v1/items/{id}: items.get
  GET /v1/{kind}/{id...}: kinds.list
  GET /api/{method}: "{method}"
  /{path...}: call
costs: {graphql: 100, other: 2, items.get: 3, kinds.list: 4, users.list: 5}
budgets: [{name: all, limit: 1000, window: 1m}]
`

// routesLeadToTheMostExactMethodCases are the cases of
// TestRoutesLeadToTheMostExactMethod.
var routesLeadToTheMostExactMethodCases = map[string]string{
	"POST /admin/1/graphql.json":              "graphql",
	"GET /admin/1/graphql.json":               "other",
	"POST /admin/1/graphql.json?query=x":      "graphql",
	"POST /admin/1/products.json":             "call",
	"GET /v1/items/7":                         "items.get",
	"GET /v1/items/a%20b":                     "items.get",
	"GET /v1/items/7/parts":                   "kinds.list",
	"GET /v1/items":                           "kinds.list",
	"HEAD /v1/items/7":                        "items.get",
	"GET /v1/boxes/%C3%BC/x":                  "kinds.list",
	"GET /api/users.list":                     "users.list",
	"GET /api/users.info":                     "users.info",
	"PURGE /":                                 "call",
	"ZYXWVUTSRQPONMLKJIHA /":                  "call",
	"ZYXWVUTSRQPONMLKJIHGA /":                 "", // longer than any verb
	"GET ":                                    "call",
	"GET /a//b/":                              "call",
	"GET /a.":                                 "call", // the only dot is the last character
	"GET /api/Users.list":                     "",
	"GET /api/a%2Fb":                          "",
	"GET /api/..":                             "",
	"GET /api/%C3%BC":                         "",
	"get /v1/items/7":                         "",
	"GET /V1/items/7":                         "",
	"GET /v1//items/7":                        "",
	"GET /v1/items/7/":                        "",
	"GET /v1/items/..":                        "",
	"GET /v1/boxes/../../v2/x":                "",
	"POST /Admin/1/graphql.json":              "",
	"POST /admin/1/graphql.json/":             "",
	"POST /admin/1/./graphql.json":            "",
	"POST /admin/1/graphql.json;a":            "",
	"POST /admin/1/graphql%2Ejson":            "",
	"POST /x%2F..%2Fadmin%2F1%2Fgraphql.json": "",
	"POST /admin/1%252Fx%252F../graphql.json": "",
	"POST /admin/1/graphql.json%3Fa":          "",
	"POST /admin/1/graphql.json.":             "",
	"POST /admin%5C1%5Cgraphql.json":          "",
	"GET /%25252525252525252561":              "",
}

func TestRoutesLeadToTheMostExactMethod(t *testing.T) {
	table := parse(t, shop)
	for request, want := range routesLeadToTheMostExactMethodCases {
		verb, path, _ := strings.Cut(request, " ")
		got, err := table.Quote(verb, "https://shop.example"+path)
		if got.Call.Method != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, costs.ErrNoRoute) {
			t.Errorf("%s: %q, %v; want %q", request, got.Call.Method, err, want)
		}
	}
	if with, err := table.WithEndpoint("", "http://127.0.0.1:8080"); err != nil {
		t.Error(err)
	} else if got, err := with.Quote("POST", "http://127.0.0.1:8080/admin/1/graphql.json"); err != nil ||
		got.Call.Units != 100 {
		t.Errorf("at an endpoint: %+v, %v", got, err)
	}
	if with, err := parse(t, two+"---\n"+strings.Replace(shop, "account: a", "account: shop", 1)).WithEndpoint("",
		"http://127.0.0.1:8080"); err != nil {
		t.Error(err)
	} else if got, err := with.Quote("GET", "http://127.0.0.1:8080/youtube/v3/search"); err != nil ||
		got.Call.Method != "search.list" {
		t.Errorf("the endpoint is not of the upstream with an api: %+v, %v", got, err)
	}
}

func TestParseReportsAllMistakesInRoutes(t *testing.T) {
	const head = "version: 1\naccount: a\nhosts: [a]\ncosts: {read: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"
	mistaken(t, head, map[string]string{
		"routes: {}": `6:9: no route: write one, such as "GET /v1/{path...}": read`,
		"routes: {GET /x/*: read}": `6:10: part "*" of route "GET /x/*" is no wildcard: write {name} for ` +
			`any one part, or {name...} for all that follow`,
		"routes: {get /x: read}": `6:10: "get" is not a verb: write it in capital letters before the path,` +
			` such as GET /v1/items, or leave it out for all`,
		"routes: {GET x: read}": `6:10: route "GET x" has no path: write a verb and a path, such as GET ` +
			`/v1/items/{id}`,
		"routes: {PSOT /x: read}": `6:10: unknown verb "PSOT": write POST`,
		"routes: {GOT /x: read}":  `6:10: unknown verb "GOT": write GET`,
		"routes: {GET: read}": `6:10: route "GET" has no path: write a verb and a path, such as GET ` +
			`/v1/items/{id}`,
		`routes: {"/a/": read}`: `6:10: part "" of route "/a/": write plain letters, {name} for any one ` +
			`part, or {name...} for all that follow`,
		`routes: {"/a/{}": read}`: `6:10: part "{}" of route "/a/{}": write plain letters, {name} for any ` +
			`one part, or {name...} for all that follow`,
		`routes: {"/a/x{b}": read}`: `6:10: part "x{b}" of route "/a/x{b}": write plain letters, {name} for ` +
			`any one part, or {name...} for all that follow`,
		`routes: {"/a/..": read}`: `6:10: part ".." of route "/a/..": write plain letters, {name} for any ` +
			`one part, or {name...} for all that follow`,
		`routes: {"/a%20b": read}`: `6:10: part "a%20b" of route "/a%20b": write plain letters, {name} for ` +
			`any one part, or {name...} for all that follow`,
		`routes: {"/{a...}/b": read}`: `6:10: route "/{a...}/b" goes on after {a...}: write it last`,
		`routes: {"/{a}/{a}": read}`:  `6:10: route "/{a}/{a}" names {a} twice: give each its own name`,
		`routes: {"/{a}": "{b}"}`: `6:10: route "/{a}" leads to method "{b}": write a name, or one of the ` +
			`path's {name}`,
		`routes: {"/{a...}": "{a...}"}`: `6:10: route "/{a...}" leads to method "{a...}": write a name, or one ` +
			`of the path's {name}`,
		`routes: {/x: a b}`: `6:10: route "/x" leads to method "a b": write a name, or one of the ` +
			`path's {name}`,
		"routes:\n  /{a}: read\n  /{b}: x": `8:3: route "/{b}" takes the same requests as "/{a}": remove one`,
		"routes: [a]":                      "6:9: routes is a list: write a map, key: value",
	}, "")
	for _, verb := range []string{"GET", "TRACE", "QUERY", "COPY", "MOVE", "LOCK", "LINK", "BIND", "PRI", "ACL",
		"LABEL", "MERGE", "MKCOL", "PROPFIND", "PROPPATCH", "REPORT", "SEARCH", "UPDATE", "UNLOCK", "PURGE"} {
		parse(t, head+"routes: {"+verb+" /x: read}\n")
	}
	mistaken(t, "version: 1\naccount: a\ncosts: {read: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n",
		map[string]string{"routes: {/x: read}": "5:9: routes without hosts: write hosts: [api.example.com]"}, "")
}

// TestAnEmptySegmentMakesNoRequestCheaper: a server may read //graphql as
// /graphql, which costs more than the route that takes everything, and leave
// out a segment of dots and blanks.
func TestAnEmptySegmentMakesNoRequestCheaper(t *testing.T) {
	table := parse(t,
		"version: 1\naccount: a\nhosts: [a.example]\nroutes: {POST /graphql: graphql, \"/{path...}\": call}\ncosts: "+
			"{graphql: 100, call: 1}\nbudgets: [{name: all, limit: 1000, window: 1h}]\n")
	for path, want := range map[string]quota.Units{"/graphql": 100, "//graphql": 0, "/graphql/": 0, "/graphql/.%20.": 0,
		"/graphql/...": 0, "/.graphql": 1, "/x": 1} {
		if found, err := table.Quote("POST", "https://a.example"+path); found.Call.Units != want ||
			(err == nil) != (want > 0) {
			t.Errorf("%s: %+v, %v; want %d units", path, found.Call, err, want)
		}
	}
}

// TestABudgetMayNameARoutedMethodWithoutACost: a budget may name it, and a call
// of it is refused for want of a cost, not as a typo.
func TestABudgetMayNameARoutedMethodWithoutACost(t *testing.T) {
	table := parse(t,
		"version: 1\naccount: a\nhosts: [a.example]\nroutes: {GET /x: read, GET /y: ping, \"GET /z/{method}\": "+
			"\"{method}\"}\ncosts: {read: 1}\nbudgets: [{name: all, limit: 10, window: 1h, methods: [read, ping]}]\n")
	for method, want := range map[string]string{"ping": "has no cost", "pnig": "write ping",
		"": "is not a known method; write one"} {
		if _, err := table.Call("", method); !errors.Is(err, costs.ErrNoCost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", method, err, want)
		}
	}
}

// However an expensive request is spelled, it has its price or is refused.
func TestNoMutationMakesAnExpensiveRouteCheap(t *testing.T) {
	table := parse(t, shop)
	rapid.Check(t, func(t *rapid.T) {
		req := &http.Request{Method: "POST",
			URL: &url.URL{Scheme: "https", Host: "shop.example", Path: "/admin/1/graphql.json"}, Header: http.Header{}}
		for _, mutate := range rapid.SliceOfN(rapid.SampledFrom(mutations[:4]), 1, 4).Draw(t, "mutations") {
			mutate(t, req)
		}
		call, err := table.Price(req)
		if _, refused := errors.AsType[*costs.PriceError](err); !refused &&
			(err != nil || call.Units != 100 || call.Method != "graphql") {
			t.Fatalf("%s %s: %+v, %v", req.Method, req.URL, call, err)
		}
	})
}

// A request that any server could read as the expensive one is never priced
// below it.
func FuzzRoutes(f *testing.F) {
	table := parse(f, shop)
	for _, p := range []string{"/admin/1/graphql.json", "/admin/1/x/../graphql.json", "/admin%2f1%2fgraphql.json",
		"/ADMIN/1/graphql.json;v=1", "//admin/1/graphql.json/", "/api/users.list",
		"/admin/1%255C..%255C2/graphql.json"} {
		f.Add("POST", p)
	}
	f.Fuzz(func(t *testing.T, verb, rawPath string) {
		u, err := url.Parse("https://shop.example/" + strings.TrimPrefix(rawPath, "/"))
		if err != nil || u.Host != "shop.example" {
			return
		}
		call, err := table.Price(&http.Request{Method: verb, URL: u})
		read := lenient(u.EscapedPath())
		if expensive, _ := path.Match("/admin/*/graphql.json", read); expensive && verb == "POST" && err == nil &&
			call.Units < 100 {
			t.Errorf("%s %s (%s): %+v", verb, u, read, call)
		}
		if err == nil && (call.Units < 1 || call.Account != "a" || call.Method == "" ||
			len(call.Method) > quota.MaxLabel) {
			t.Errorf("%s %s: %+v", verb, u, call)
		}
	})
}

func BenchmarkPriceByRoutes(b *testing.B) {
	table := use(b, "preset: github-rest")
	req := get(b, "https://api.github.com/repos/ration-dev/ration/issues?state=open")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = table.Price(req)
	}
}
