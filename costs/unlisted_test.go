package costs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// TestAPathWithoutARouteIsNotUnlisted: unlisted prices methods without a cost,
// not requests without a method.
func TestAPathWithoutARouteIsNotUnlisted(t *testing.T) {
	table := use(t,
		"hosts: [api.example.com]\nroutes: {GET /a: read, GET /b: write}\nunlisted: 3\ncosts: {read: 1}\nbudgets: "+
			"[{name: all, limit: 9, window: 24h}, {name: writes, limit: 5, window: 24h, methods: [write]}]")
	if got, err := table.Quote("GET", "https://api.example.com/b"); err != nil || got.Call.Units != 3 ||
		len(got.Budgets) != 2 {
		t.Errorf("%+v, %v; want a write of 3 units", got, err)
	}
	if got, err := table.Quote("GET", "https://api.example.com/c"); !errors.Is(err, costs.ErrNoRoute) || !got.Guarded {
		t.Errorf("%+v, %v; want it guarded, and refused", got, err)
	}
}

// TestHistoryIsTheLongestOfAnAccount checks the history that a ledger receives.
func TestHistoryIsTheLongestOfAnAccount(t *testing.T) {
	const document = "version: 1\naccount: %s\nhistory: %s\nupstream: %s\ncosts: {get: 1}\nbudgets: [{name: %s, " +
		"limit: 9, window: 24h}]\n"
	var text []string
	for i, d := range [][2]string{{"b", "48h"}, {"a", "2h"}, {"b", "72h"}, {"b", "1h"}} {
		text = append(text, fmt.Sprintf(document, d[0], d[1], fmt.Sprint("u", i), fmt.Sprint("all", i)))
	}
	table := parse(t, strings.Join(text, "---\n"))
	if got := table.Accounts(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("accounts %q; want each once, in their order", got)
	}
	if got := table.History(); len(got) != 2 || got["b"] != 72*time.Hour || got["a"] != 2*time.Hour {
		t.Errorf("history %v; want the longest of each account", got)
	}
}

// TestUnlistedTakesNoMethodOfOthers: beside an upstream that takes any
// method, no step of regions.yaml could call one of YouTube, and a method that
// YouTube refuses was charged there.
func TestUnlistedTakesNoMethodOfOthers(t *testing.T) {
	table := parse(t, two+`
---
version: 1
account: any
upstream: any
hosts: [any.example]
routes: {"GET /x": x, "GET /more/{method}": "{method}"}
costs: {y: 7}
unlisted: 4
budgets: [{name: all, limit: 10, window: 1m}]
`)
	for _, c := range []struct {
		upstream, method, account string
		units                     quota.Units
		err                       error
	}{
		{"", "search.list", "yt", 100, nil},
		{"any", "search.list", "any", 4, nil},
		{"", "videos.list", "", 0, costs.ErrManyUpstreams},
		{"", "videos.insert", "", 0, costs.ErrNoCost},
		{"", "x", "any", 4, nil},
		{"", "y", "any", 7, nil},
		{"", "z", "any", 4, nil},
	} {
		if got, err := table.Call(c.upstream, c.method); got.Account != c.account || got.Units != c.units ||
			!errors.Is(err, c.err) {
			t.Errorf("Call(%q, %q) = %+v, %v; want %d units of %q, %v", c.upstream, c.method, got, err, c.units,
				c.account, c.err)
		}
	}
}
