package costs_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

const valid = `version: 1
upstream: youtube
account: a
ledger: sqlite:ration.db
api: youtube/v3
hosts: [youtube.googleapis.com]
resets: {day: America/Los_Angeles}
unlisted: refuse
costs:
  search.list: 100
  videos.list: 1
budgets:
  - {name: all, limit: 1000, window: 24h}
  - name: search
    limit: 500
    window: {day: UTC}
    methods: [search.list]
when_ledger_down:
  search.list: refuse
  default: {allow: 50}
`

// mistake replaces a text of a valid file; want is all mistakes of the result.
type mistake struct{ old, new, want string }

// parseReportsAllMistakesInADocumentCases are the cases of
// TestParseReportsAllMistakesInADocument.
var parseReportsAllMistakesInADocumentCases = []mistake{
	{valid, "version: 1",
		"1:1: missing key \"account\": write account: my-project, the upstream project whose quota it is\n" +
			"1:1: missing key \"costs\": write costs: {search.list: 100}, a cost for each method\n" +
			"1:1: missing key \"budgets\": write budgets: [{name: all, limit: 9500, window: 24h}]"},
	{"version: 1", "version: 2", "1:10: version is 2: write 1"},
	{"account: a", "account: AIza" + strings.Repeat("x", 35),
		"3:10: account looks like an API key, and would be shown in logs and key names: write the name of the " +
			"project"},
	{"sqlite:ration.db", "redis://:hunter2@host/0",
		"4:9: ledger holds a password: remove it here and put it into the environment as RATION_REDIS_PASSWORD"},
	{"sqlite:ration.db", "redis://host/0?password=hunter2",
		"4:9: ledger holds a password: remove it here and put it into the environment as RATION_REDIS_PASSWORD"},
	{"sqlite:ration.db", "postgres://jobs:hunter2@host/quota",
		"4:9: ledger holds a password: remove it here and put it into ~/.pgpass, or into the environment as " +
			"PGPASSWORD"},
	{"sqlite:ration.db", "ration.db",
		"4:9: ledger has no scheme: write sqlite:ration.db, redis://host:6379/0 or postgres://user@host/database"},
	{"sqlite:ration.db", `C:\ration.db`,
		"4:9: ledger has no scheme: write sqlite:ration.db, redis://host:6379/0 or postgres://user@host/database"},
	{"sqlite:ration.db", "ration@redis:6379",
		"4:9: ledger has no scheme: write sqlite:ration.db, redis://host:6379/0 or postgres://user@host/database"},
	{"sqlite:ration.db", `"sqlite:"`, "4:9: ledger names no file: write sqlite:ration.db"},
	{"sqlite:ration.db", "sqlite:?synchronous=normal", "4:9: ledger names no file: write sqlite:ration.db"},
	{"sqlite:ration.db", "sqlite:~/ration.db",
		"4:9: ledger begins with ~, which only a shell expands: write the whole path"},
	{"api: youtube/v3", "x: 1\napi: youtube/v3",
		`5:1: unknown key "x": write one of version, preset, account, ledger, credential, insecure, upstream, ` +
			`api, hosts, domains, unguarded, routes, ` +
			"key, resets, reset_margin, history, unlisted, feedback, measures, lease, answers, " +
			"not_modified_units, " +
			"costs, batches, budgets, " +
			"lanes, when_ledger_down, alert"},
	{"api: youtube/v3", "api: [youtube/v3]", "5:6: api is a list: write one of youtube/v3"},
	{"[youtube.googleapis.com]", "[youtube..googleapis.com]",
		"6:9: not a host: write letters, digits, dots and hyphens, such as www.googleapis.com"},
	{"api: youtube/v3", "api: youtube/v2", `5:6: unknown api "youtube/v2": write youtube/v3`},
	{"api: youtube/v3\n", "",
		`1:1: hosts without an api: write api: youtube/v3, from which the routes come, or routes: {"GET ` +
			`/v1/{path...}": read}`},
	{"hosts: [youtube.googleapis.com]\n", "",
		"5:6: an api without hosts: write hosts: [youtube.googleapis.com, www.googleapis.com]"},
	{"[youtube.googleapis.com]", `["https://youtube.googleapis.com", "*.googleapis.com", a b, a.b, A.b.]`,
		"6:9: a host is not a URL: write the part between // and the next /\n" +
			"6:43: a host has no wildcard: write each host by its name\n6:63: not a host: write letters, digits, " +
			"dots and hyphens, such as www.googleapis.com\n" +
			"6:73: repeated host a.b: write it once, since a request finds its upstream by host"},
	{"hosts: [", "host: [", `6:1: unknown key "host": write hosts`},
	{"api: y", "apii: y", `5:1: unknown key "apii": write api`},
	{"[youtube.googleapis.com]",
		`["h:0", "h:65536", "h:080", "h:x", "[::1]:0", "2001:db8::1", "h:65535", "[::1]:8080", "[2001:db8::1]", ` +
			`"i:"]`,
		"6:9: h:0 has no port from 1 to 65535: correct the port, or leave it out\n" +
			"6:16: h:65536 has no port from 1 to 65535: correct the port, or leave it out\n" +
			"6:27: h:080 has no port from 1 to 65535: correct the port, or leave it out\n" +
			"6:36: h:x has no port from 1 to 65535: correct the port, or leave it out\n" +
			"6:43: [::1]:0 has no port from 1 to 65535: correct the port, or leave it out\n" +
			`6:54: an IPv6 address goes in brackets: write "[2001:db8::1]"`},
	{"{day: America/Los_Angeles}", "{day: Pacific}",
		`7:15: day is "Pacific": write the IANA name of a zone, such as America/Los_Angeles or UTC`},
	{"{day: America/Los_Angeles}", "{}", "7:9: missing key \"day\": write day: America/Los_Angeles"},
	{"unlisted: refuse", "unlisted: allow",
		`8:11: unknown policy "allow": write one of refuse, what a method without a cost costs`},
	{"unlisted: refuse", "unlisted: 1001",
		`8:11: unlisted costs 1001, more than the limit 1000 of budget "all": lower the cost or raise the limit`},
	{"unlisted: refuse", "unlisted: 1.5",
		"8:11: unlisted is neither refuse nor a number: write refuse, or what a method without a cost costs"},
}

func TestParseReportsAllMistakesInADocument(t *testing.T) {
	parse(t, valid)
	expect(t, valid, parseReportsAllMistakesInADocumentCases)
}

func TestParseReportsAllMistakesInCostsAndBudgets(t *testing.T) {
	expect(t, valid, []mistake{
		{"  videos.list: 1", "  vidoes.list: 1", `11:3: unknown method of youtube/v3 "vidoes.list": write videos.list`},
		{"  videos.list: 1", "  x: 1", `11:3: unknown method of youtube/v3 "x": remove it`},
		{"  videos.list: 1", "  videos.list: 0", "11:16: videos.list is 0: write an integer from 1 to 2147483647"},
		{"  videos.list: 1", "  videos.list: 1\n  search.list: 1", `12:3: repeated key "search.list": remove one`},
		{"search.list: 100", "search.list: 501",
			`10:16: search.list costs 501, more than the limit 500 of budget "search": lower the cost or raise the ` +
				`limit`},
		{"limit: 500", "limit: 1e3", `15:12: limit is "1e3": write an integer from 1 to 140737488355327`},
		{"name: search", "name: all", `14:5: repeated budget "all" in one account: write another name`},
		{"[search.list]", "[serach.list, Search.list]",
			`17:15: unknown method of youtube/v3 "serach.list": write search.list` + "\n" +
				`17:28: unknown method of youtube/v3 "Search.list": write search.list`},
		{"[search.list]", "[]", "17:14: an empty list: name at least one, or remove the key to cover all"},
		{"{day: UTC}", "{day: UTC, counter: 10m}",
			"16:24: there are no counter windows: write window: 10m, a sliding window of that length"},
		{"{day: UTC}", "{day: UTC, margin: 1s}",
			"16:13: margin is for sliding windows and buckets: write {sliding: 2s, margin: 20ms}; windows on the " +
				"clock take reset_margin"},
		{"{day: UTC}", "{sliding: 2s, margin: 1ns}", "16:35: a margin is whole microseconds: round it"},
		{"{day: UTC}", "{fortnight: UTC}",
			`16:14: unknown key "fortnight": write one of day, week, month, hour, from, at, every, sliding, bucket, ` +
				`in_flight, margin`},
		{"{day: UTC}", "daily",
			`16:13: window is "daily", without a zone: write {day: America/Los_Angeles}, {week: UTC}, {month: UTC} ` +
				`or {hour: UTC}`},
		{"{day: UTC}", "1m1ns", "16:13: a window is whole microseconds: round it"},
		{"{day: UTC}", "1ns", `16:13: window is "1ns": write a duration from 1ms to 9600h, such as 24h, 10m or 30s`},
		{"    limit: 500\n", "", "14:5: missing key \"limit\": write limit: 9500"},
		{"name: search", "name: search\n    colour: red",
			`15:5: unknown key "colour": write one of name, count, limit, window, in_flight, lease, methods, except,` +
				` lanes, regions, per, keys, floor, floor_until, upstream_limit, shadow`},
		{"  search.list: refuse", "  search.list: {allow: 99}",
			"19:16: search.list costs 100, more than its allowance of 99 units: write refuse, or at least 100"},
		{"  default: {allow: 50}", "  defualt: 50", `20:3: unknown method of youtube/v3 "defualt": write default` +
			"\n20:12: neither refuse nor an allowance: write refuse, or {allow: 50}"},
		{"  default: {allow: 50}\n",
			"  default: {allow: 50}\n---\nversion: 1\nupstream: youtube\naccount: a\nledger: " +
				"sqlite:other.db\ncosts: {get: 2000}\nbudgets: [{name: all, limit: 3000, window: 1h}]\n",
			"23:11: repeated upstream \"youtube\": write another name\n25:9: ledger differs from that of the first " +
				"document: write it there only\n" +
				`26:14: get costs 2000, more than the limit 1000 of budget "all": lower the cost or raise the limit` +
				"\n27:11: repeated budget \"all\" in one account: write another name"},
		{valid,
			"version: 1\naccount: a\ncosts: {get: 1, put: 2}\nbudgets: [{name: all, limit: 10, window: 1h, except: " +
				"[pet]}]\n", `4:55: unknown method "pet": write get`},
	})
}

func TestParseReportsAllMistakesInWindowsAndFloors(t *testing.T) {
	const window = "window: {day: UTC}"
	expect(t, valid, []mistake{
		{"{day: UTC}", "{day: UTC, month: UTC}",
			"16:13: a window is one thing: write 24h, {day: America/Los_Angeles}, {month: UTC}, {every: 15m}, " +
				"{bucket: {restore: 50/s}} or {in_flight: 2m}"},
		{"{day: UTC}", "{counter: 1000}",
			"16:14: there are no counter windows: write window: 10m, a sliding window of that length"},
		{"{day: UTC}", `{day: UTC, at: "24:00"}`,
			`16:28: "24:00" is not a time of day: write one from 00:00 to 23:59, such as at: "06:00"`},
		{"{day: UTC}", `{day: UTC, at: "6:00"}`,
			`16:28: "6:00" is not a time of day: write one from 00:00 to 23:59, such as at: "06:00"`},
		{"{day: UTC}", "{day: UTC, at: 6}", `16:28: at is 6: write it in quotes if a text is meant`},
		{"{day: America/Los_Angeles}", "{day: UTC, month: UTC}",
			"7:9: day and month are both there: write the one at whose end the upstream starts afresh"},
		{"unlisted: refuse", "reset_margin: 1ns", "8:15: a margin is whole microseconds: round it"},
		{"limit: 500", "limit: 500\n    floor: {IN: 300, US: 201}",
			"16:12: floors of 501 together, more than the limit 500: lower them or raise the limit"},
		{"limit: 500", "limit: 500\n    floor: {in: 1, IND: 2, DE: 0}",
			`16:13: unknown region "in": write its two capital letters, such as IN` + "\n" +
				`16:20: unknown region "IND": write its two capital letters, such as IN` +
				"\n16:32: DE is 0: write an integer from 1 to 140737488355327"},
		{"limit: 500", "limit: 500\n    floor: {}", "16:12: no floor: write one, such as {IN: 500}, or remove the key"},
		{"limit: 500", "limit: 500\n    floor: {UK: 1}", `16:13: unknown region "UK": write GB`},
		{"limit: 500", "limit: 500\n    regions: [US, EL]", `16:19: unknown region "EL": write GR`},
		{"limit: 500", "limit: 500\n    regions: [US, gb]",
			`16:19: unknown region "gb": write its two capital letters, such as IN`},
		{"limit: 500", "limit: 500\n    regions: [US]\n    floor: {IN: 100}",
			`17:13: a floor for IN, which budget "search" does not cover: remove it, or add IN to regions`},
		{"limit: 500", "limit: 500\n    upstream_limit: 499",
			"16:21: upstream_limit 499 is less than the limit, 500: the upstream would refuse what the budget " +
				"admits; write a limit of at most 499"},
		{"limit: 500", "limit: 500\n    floor: {IN: 100}\n    floor_until: 23h",
			"17:18: floor_until is 23h, nearly the whole window: write less than 22h29m"},
		{"limit: 500", "limit: 500\n    floor_until: 2h",
			"16:18: floor_until without a floor: write floor: {IN: 500}, or remove it"},
		{window, "floor: {IN: 1}\n    floor_until: 2h\n    window: 24h",
			"17:18: floor_until on window 24h, which has no end: write window: {day: America/Los_Angeles}, or " +
				"remove it"},
		{window, "floor: {IN: 83, US: 83, DE: 83, FR: 83, GB: 83, BR: 83}\n    window: 24h",
			`10:16: search.list costs 100, which never fits beside the floors of budget "search", 415 of its limit ` +
				`500: lower the floors or raise the limit`},
	})
}

// mistaken expects one mistake of each text, which follows what is before it
// and precedes what is after; wants are the mistakes, or parts of them.
func mistaken(t *testing.T, before string, wants map[string]string, after string) {
	t.Helper()
	for text, want := range wants {
		_, err := costs.Parse("costs.yaml", []byte(before+text+after+"\n"))
		isOne := err != nil && !strings.Contains(err.Error(), "\n")
		if !isOne || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func expect(t *testing.T, valid string, cases []mistake) {
	t.Helper()
	for _, c := range cases {
		if !strings.Contains(valid, c.old) {
			t.Errorf("the valid file has no %q", c.old)
		}
		expectAll(t, strings.Replace(valid, c.old, c.new, 1), c.want)
	}
}

// expectAll expects all mistakes of a text, one a line of want, in any order.
func expectAll(t *testing.T, text, want string) {
	t.Helper()
	_, err := costs.Parse("costs.yaml", []byte(text))
	if err == nil {
		t.Errorf("%s\nhas no mistake; want %s", text, want)
		return
	}
	got := strings.Split(strings.ReplaceAll(err.Error(), "costs.yaml:", ""), "\n")
	wanted := strings.Split(want, "\n")
	slices.Sort(got)
	slices.Sort(wanted)
	if diff := cmp.Diff(slices.Compact(wanted), slices.Compact(got)); diff != "" {
		t.Errorf("%s\n%s", text, diff)
	}
	for _, secret := range []string{"hunter2", "xxx"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s in %v", secret, err)
		}
	}
}

// guardable is a ledger for quota.NewGuard, which does not call it.
type guardable struct{ quota.Ledger }

// Parse does not panic for any bytes. A guard accepts a table that it returns,
// and the table prices every method within its limits.
func FuzzParse(f *testing.F) {
	shippedData, err := os.ReadFile(shipped)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(shippedData))
	f.Add(valid)
	f.Add(two)
	f.Add(shop)
	for _, lines := range uses {
		f.Add("version: 1\naccount: a\n" + lines + "\n")
	}
	f.Add("version: 1\naccount: a\npreset: {name: youtube/legacy}\nreset_margin: 1m\nbudgets: [{name: youtube-day, " +
		"window: {month: UTC, at: 06:00}, floor: {IN: 5}, floor_until: 2h}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := costs.Parse("costs.yaml", []byte(text))
		if err != nil {
			if _, ok := errors.AsType[*strictyaml.Error](err); !ok || table != nil {
				t.Fatalf("%v, %T", table, err)
			}
			return
		}
		guard, err := quota.NewGuard(guardable{}, table.Budgets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range table.Upstreams() {
			for _, c := range u.Costs {
				for _, b := range guard.Covering(quota.Call{Account: u.Account, Method: c.Method, Units: c.Units}) {
					if u.Origin("costs", c.Method).Preset != "" {
						continue // a preset's own cost may be above a lowered limit
					}
					if c.Units < 1 || b.Amount(&quota.Call{Units: c.Units}) > b.Limit {
						t.Errorf("%s costs %d, over the limit of %+v", c.Method, c.Units, b)
					}
				}
			}
			for _, host := range u.Hosts {
				if u.API == "" {
					continue
				}
				if _, err := table.Quote("GET", "https://"+host+"/youtube/v3//search"); !errors.Is(err,
					costs.ErrNoRoute) {
					t.Errorf("host %q: %v", host, err)
				}
			}
		}
	})
}

func TestWindowsAreReadAsTheyAreWritten(t *testing.T) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]quota.Window{
		"90s":                        quota.Sliding(90 * time.Second),
		"{day: America/Los_Angeles}": quota.Daily(pacific),
		"{day: UTC, at: 06:00}":      quota.Daily(time.UTC).At(6 * time.Hour),
		"{month: UTC}":               quota.Monthly(time.UTC),
		`{at: "23:59", month: UTC}`:  quota.Monthly(time.UTC).At(24*time.Hour - time.Minute),
	} {
		u := use(t, "resets: {month: UTC, at: \"00:30\"}\ncosts: {get: 1}\nbudgets: [{name: all, limit: 10, window: "+
			text+"}]").Upstreams()[0]
		if got := u.Budgets[0].Window; got.String() != want.String() || got.Horizon(0) != want.Horizon(0) {
			t.Errorf("%s is %s of %s; want %s", text, got, got.Horizon(0), want)
		}
		if u.Resets != time.UTC || u.ResetWindow != quota.Monthly(time.UTC).At(30*time.Minute) ||
			u.ResetMargin != quota.DefaultMargin {
			t.Errorf("it resets by %s (%s)", u.ResetWindow, u.ResetMargin)
		}
	}
	u := use(t,
		"reset_margin: 0s\ncosts: {get: 1}\nbudgets: [{name: all, limit: 10, window: {day: UTC}}]").Upstreams()[0]
	if u.Budgets[0].Window != quota.Daily(time.UTC).WithMargin(0) || u.ResetWindow.Kind() != 0 {
		t.Errorf("%+v", u)
	}
}

// TestTheLongestFloorUntilIsAccepted: a guard accepts every floor_until that is
// parsed, with any margin.
func TestTheLongestFloorUntilIsAccepted(t *testing.T) {
	for margin, bound := range map[string]time.Duration{"0s": 22*time.Hour + 30*time.Minute,
		"30s": 22*time.Hour + 29*time.Minute, "1h": 20*time.Hour + 30*time.Minute} {
		parse := func(until time.Duration) (*costs.Table, error) {
			return costs.Parse("costs.yaml",
				[]byte("version: 1\naccount: a\npreset: youtube/legacy\nreset_margin: "+margin+
					"\nbudgets: [{name: youtube-day, floor: {IN: 5}, floor_until: "+until.String()+"}]\n"))
		}
		table, err := parse(bound - time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := quota.NewGuard(memledger.Open(nil), table.Budgets(), nil); err != nil {
			t.Error(err)
		}
		if _, err := parse(bound); err == nil || !strings.Contains(err.Error(), "write less than ") {
			t.Errorf("%s: %v", bound, err)
		}
	}
}
