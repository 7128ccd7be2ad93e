package gateway_test

import (
	"net/http"
	"slices"
	"testing"
)

// TestCookiesGoToTheirOwnUpstream: a cookie that an upstream sets comes back to
// that upstream only, and the page's cookie stays on the gateway.
func TestCookiesGoToTheirOwnUpstream(t *testing.T) {
	var sets []string
	s, _, seen := newProxy(t, func(w http.ResponseWriter, _ *http.Request) { w.Header()["Set-Cookie"] = sets })
	for set, want := range map[string]string{
		"sid=a; Path=/; HttpOnly": "sid=a; HttpOnly; Path=/to/api.example.com/",
		"sid=a":                   "sid=a; Path=/to/api.example.com/v1",
		"sid=a; path = /x;DOMAIN=example.com;Expires=0; Odd=1": "sid=a;Expires=0; Odd=1; Path=/to/api.example.com/x",
		"sid=a; Path=/x; Path=/y; Secure; Max-Age=5":           "sid=a; Secure; Max-Age=5; Path=/to/api.example.com/y",
		"sid=a; Path=/x; Path=y":                               "sid=a; Path=/to/api.example.com/v1",
		"sid=\"a b\"; SameSite=Lax; Path=/\"": "sid=\"a b\"; SameSite=Lax; " +
			"Path=/to/api.example.com/\"",
		"ration-page=evil; Path=/":           "",
		"path=/x; Path=/;":                   "path=/x; Path=/to/api.example.com/",
		"prefs={\"theme\":\"dark\"}; Path=/": "prefs={\"theme\":\"dark\"}; Path=/to/api.example.com/",
		"name=Zoë; Path=/":                   "name=Zoë; Path=/to/api.example.com/",
		"a b=c==d,e\\; Odd=\"ë\"": "a b=c==d,e\\; Odd=\"ë\"; " +
			"Path=/to/api.example.com/v1",
		"__Host-sid=a; Secure; Path=/": "__Host-sid=a; Secure; Path=/to/api.example.com/",
		" ration-page\t= evil; Path=/": "",
		"ration-page=\"ë":              "",
		" =a":                          "",
		"no cookie":                    "",
		"=ration-page=evil":            "",
	} {
		sets = []string{set, "other=1; Path=/o"}
		want := slices.DeleteFunc([]string{want, "other=1; Path=/to/api.example.com/o"},
			func(line string) bool { return line == "" })
		if got := s.do("GET", "/to/api.example.com/v1/items", "").Header["Set-Cookie"]; !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", set, got, want)
		}
	}
	sets = []string{"sid=a"}
	for _, path := range []string{"", "/", "/x", "/x;Path=/"} {
		got := s.do("GET", "/to/api.example.com"+path, "").Header.Get("Set-Cookie")
		if want := "sid=a; Path=/to/api.example.com"; got != want {
			t.Errorf("from %q: %s; want %s", path, got, want)
		}
	}
	for sent, want := range map[string][]string{"ration-page=secret": nil, "a=1; ration-page=secret; b=2": {"a=1; b=2"},
		"ration-page=x; a= 1 ;b":                          {"a= 1 ;b"},
		`prefs={"theme":"dark"}; ration-page=x; name=Zoë`: {`prefs={"theme":"dark"}; name=Zoë`}} {
		s.do("GET", "/to/api.example.com/v1/items", "", "Cookie", sent)
		if got := seen.Load().Header["Cookie"]; !slices.Equal(got, want) {
			t.Errorf("%s: the upstream saw %q; want %q", sent, got, want)
		}
	}
}
