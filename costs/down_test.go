package costs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// shared are two documents of one account: each has a method of its own, and
// both price get.
const shared = `version: 1
upstream: first
account: a
costs: {get: 1, list: 1}
budgets: [{name: all, limit: 1000, window: 24h}]
%s
---
version: 1
upstream: second
account: a
costs: {get: 1, export: 1}
budgets: [{name: second, limit: 1000, window: 24h, methods: [export]}]
%s
---
version: 1
upstream: third
account: b
costs: {get: 1}
budgets: [{name: all, limit: 1000, window: 24h}]
when_ledger_down: {default: {allow: 7}}
`

// The allowance of an account's first document used to hold for all of them.
func TestStrictestDocumentOfAnAccountDecides(t *testing.T) {
	allow, refuse, less := "when_ledger_down: {default: {allow: 50}}", "when_ledger_down: {default: refuse}",
		"when_ledger_down: {get: {allow: 20}, default: {allow: 30}}"
	for _, c := range []struct {
		first, second           string
		get, list, export, gone quota.Units
	}{
		{allow, refuse, 0, 50, 0, 0},
		{refuse, allow, 0, 0, 50, 0},
		{allow, "", 0, 50, 0, 0},
		{"", allow, 0, 0, 50, 0},
		{allow, less, 20, 50, 30, 30},
		{less, allow, 20, 30, 50, 30},
		{"", "", 0, 0, 0, 0},
	} {
		table := parse(t, fmt.Sprintf(shared, c.first, c.second))
		for method, want := range map[string]quota.Units{"get": c.get, "list": c.list, "export": c.export,
			"gone": c.gone} {
			if got := table.Allowance(quota.Call{Account: "a", Method: method}); got != want {
				t.Errorf("%q and %q: %s may spend %d, want %d", c.first, c.second, method, got, want)
			}
		}
		if got := table.Allowance(quota.Call{Account: "b", Method: "get"}); got != 7 {
			t.Errorf("the other account may spend %d", got)
		}
		if got := table.Allowance(quota.Call{Account: "c", Method: "get"}); got != 0 {
			t.Errorf("an unknown account may spend %d", got)
		}
	}
}

func TestAnAllowanceMayDependOnLaneAndJob(t *testing.T) {
	table := use(t, `costs: {get: 1, list: 1, export: 30}
budgets: [{name: all, limit: 1000, window: 24h}]
when_ledger_down:
  - {methods: [export], jobs: [critical], then: {allow: 60}}
  - {methods: [export], then: refuse}
  - {lanes: [backfill, manual], then: refuse}
  - {jobs: [nightly], regions: [IN], then: {allow: 9}}
  - {then: {allow: 50}}`)
	for _, c := range []struct {
		method string
		caller quota.Caller
		want   quota.Units
	}{
		{"get", quota.Caller{}, 50},
		{"get", quota.Caller{Lane: "cron", Job: "trending", Region: "US"}, 50},
		{"get", quota.Caller{Lane: "backfill"}, 0},
		{"get", quota.Caller{Lane: "manual", Job: "nightly", Region: "IN"}, 0},
		{"get", quota.Caller{Lane: "cron", Job: "nightly", Region: "IN"}, 9},
		{"get", quota.Caller{Lane: "cron", Job: "nightly", Region: "US"}, 50},
		{"export", quota.Caller{Lane: "cron", Job: "nightly", Region: "IN"}, 0},
		{"export", quota.Caller{Lane: "backfill", Job: "critical"}, 60},
	} {
		if got := table.Allowance(quota.Call{Account: "a", Method: c.method, Caller: c.caller}); got != c.want {
			t.Errorf("%s by %+v may spend %d, want %d", c.method, c.caller, got, c.want)
		}
	}
	var got []string
	for _, rule := range table.Upstreams()[0].Down {
		got = append(got, rule.Origin.String()+" "+rule.String())
	}
	want := []string{"costs.yaml:6 export, jobs critical: allow 60", "costs.yaml:7 export: refuse",
		"costs.yaml:8 lanes backfill manual: refuse",
		"costs.yaml:9 jobs nightly, regions IN: allow 9", "costs.yaml:10 all other calls: allow 50"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if open := use(t,
		"costs: {get: 1}\nbudgets: [{name: all, limit: 9, window: 1h}]\nwhen_ledger_down: [{jobs: [health], then: "+
			"{allow: 5}}]"); open.Allowance(quota.Call{Account: "a", Method: "get"}) != 0 ||
		open.Allowance(quota.Call{Account: "a", Method: "get", Caller: quota.Caller{Job: "health"}}) != 5 {
		t.Error("a rule that covers one job decides about others")
	}
}

// The order of a map's lines does not matter: a method's own rule precedes
// the default.
func TestDefaultAllowanceAppliesLast(t *testing.T) {
	table := use(t,
		"costs: {get: 1, list: 1}\nbudgets: [{name: all, limit: 9, window: 1h}]\nwhen_ledger_down: {default: "+
			"{allow: 5}, get: refuse}")
	for method, want := range map[string]quota.Units{"get": 0, "list": 5} {
		if got := table.Allowance(quota.Call{Account: "a", Method: method}); got != want {
			t.Errorf("%s may spend %d, want %d", method, got, want)
		}
	}
}

func TestParseReportsAllMistakesInAllowances(t *testing.T) {
	const old = "  search.list: refuse\n  default: {allow: 50}"
	expect(t, valid, []mistake{
		{old, "  - {methods: [serach.list], then: refuse}",
			`19:16: unknown method of youtube/v3 "serach.list": write search.list`},
		{old, "  - {methods: [search.list], then: {allow: 99}}",
			"19:36: search.list costs 100, more than its allowance of 99 units: write refuse, or at least 100"},
		{old, "  - {lanes: [cron]}", "19:5: missing key \"then\": write then: refuse, or then: {allow: 50}"},
		{old, "  - {lanes: [], then: refuse}",
			"19:13: an empty list: name at least one, or remove the key to cover all"},
		{old, "  - {regions: [in], then: refuse}",
			`19:16: unknown region "in": write its two capital letters, such as IN`},
		{old, "  - {then: open}", `19:12: unknown policy "open": write one of refuse, {allow: 50}`},
		{old, "  - {then: 50}", "19:12: neither refuse nor an allowance: write refuse, or {allow: 50}"},
		{old, "  - {lanes: [], then: open}",
			"19:13: an empty list: name at least one, or remove the key to cover all\n" +
				`19:23: unknown policy "open": write one of refuse, {allow: 50}`},
		{old, "  - {then: {allow: 0}}", "19:20: allow is 0: write an integer from 1 to 2147483647"},
		{old, "  - {then: {}}", "19:12: missing key \"allow\": write allow: 50, in units"},
		{old, "  - {lane: [cron], then: refuse}", `19:6: unknown key "lane": write lanes`},
		{old, "  - {lane: [cron], then: refuse}\n  - {then: {allow: 50}}", `19:6: unknown key "lane": write lanes`},
		{old, "  - {lanes: cron, then: refuse}\n  - {then: {allow: 50}}",
			`19:13: lanes is "cron": write a list, [first, second]`},
		{old, "  []", "19:3: no rule: write one, such as [{then: {allow: 50}}], or remove the key to refuse all"},
		{old, "  - {then: refuse}\n  - {jobs: [x], then: {allow: 50}}",
			`20:5: rule "jobs x: allow 50" is never reached, since the rule in line 19 decides its calls: write it ` +
				`before that one, or remove it`},
		{old, "  - {lanes: [a, b], then: refuse}\n  - {lanes: [b], jobs: [x], then: {allow: 50}}",
			`20:5: rule "lanes b, jobs x: allow 50" is never reached, since the rule in line 19 decides its calls: ` +
				`write it before that one, or remove it`},
		{old, "  allow: 50", "19:3: a policy without its methods: write {default: refuse}, or {default: {allow: 50}}"},
		{old, "  default: open", `19:12: unknown policy "open": write one of refuse, {allow: 50}`},
	})
	for _, lines := range []string{"[{lanes: [a], then: refuse}, {lanes: [a, b], then: refuse}]",
		"[{jobs: [a], then: refuse}, {lanes: [a], then: refuse}]", "{}"} {
		if _, err := costs.Parse("costs.yaml", []byte(strings.Replace(valid, "\n"+old, " "+lines, 1))); err != nil {
			t.Errorf("%s: %v", lines, err)
		}
	}
}
