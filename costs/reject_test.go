package costs_test

import (
	"testing"
)

func TestMeaninglessMeasuresMarginsAndListsAreMistakes(t *testing.T) {
	const (
		limit, window, resets = "    limit: 500", "window: {day: UTC}", "resets: {day: America/Los_Angeles}"
		empty                 = "an empty list: name at least one, or remove the key to cover all"
		calendar              = "reset_margin without a calendar window: write one, such as window: {day: " +
			"America/Los_Angeles}, or remove it"
	)
	expect(t, valid, []mistake{
		{limit, limit + "\n    count: unit", `16:12: unknown count "unit": write units`},
		{limit, limit + "\n    count: both",
			`16:12: unknown count "both": write one of units, calls, errors, or list it in measures`},
		{limit, "    limit: 0", "15:12: limit is 0: write an integer from 1 to 140737488355327"},
		{limit, "    limit: 140737488355328",
			"15:12: limit is 140737488355328: write an integer from 1 to 140737488355327"},
		{limit, limit + "\n    except: []", "16:13: " + empty},
		{limit, limit + "\n    lanes: []", "16:12: " + empty},
		{limit, limit + "\n    regions: []", "16:14: " + empty},
		{limit, limit + "\n    lanes: cron", `16:12: lanes is "cron": write a list, [first, second]`},
		{resets, resets + "\nreset_margin: 61m",
			`8:15: reset_margin is "61m": write a duration from 0s to 1h, such as 10m or 30s`},
		{resets, resets + "\nreset_margin: 3601",
			`8:15: reset_margin is 3601: write a duration from 0s to 1h, such as 10m or 30s`},
		{limit, limit + "\n    floor: {IN: -1}", "16:17: IN is -1: write an integer from 1 to 140737488355327"},
		{limit, limit + "\n    floor: [IN]", "16:12: floor is a list: write a map, key: value"},
		{limit, limit + "\n    floor: {IN: 100}\n    floor_until: 0s",
			`17:18: floor_until is "0s": write a duration from 1ms to 9600h, such as 24h, 10m or 30s`},
		{limit, limit + "\n    floor: {IN: 100}\n    floor_until: 2",
			"17:18: floor_until is 2, without a unit: write 2h, 2m or 2s"},
		{window, "floor: {IN: 1}\n    floor_until: 28d\n    window: {month: UTC}",
			"17:18: floor_until is 672h, nearly the whole window: write less than 670h29m"},
		{"resets: {day: America/Los_Angeles}", "resets: {daily: UTC}",
			`7:10: unknown key "daily": write one of day, week, month, hour, from, at`},
		{window, "window: {at: \"06:00\"}",
			"16:13: a window is one thing: write 24h, {day: America/Los_Angeles}, {month: UTC}, {every: 15m}, " +
				"{bucket: {restore: 50/s}} or {in_flight: 2m}"},
		{window, "window: 401d",
			`16:13: window is "401d": write a duration from 1ms to 9600h, such as 24h, 10m or 30s`},
		{window, "window: 24", "16:13: window is 24, without a unit: write 24h, 24m or 24s"},
	})
	const all = "budgets: [{name: all, limit: 1, window: 24h}]"
	mistaken(t, "version: 1\naccount: a\n", map[string]string{
		"costs: {get: 1}\nwhen_ledger_down: refuse\n" + all: "4:19: a policy without its methods",
		"reset_margin: 1m\ncosts: {get: 1}\n" + all:         "3:15: " + calendar,
		"reset_margin: 0s\ncosts: {get: 1}\n" + all:         "3:15: " + calendar,
		"costs: {}\n" + all:                                 "3:8: no method has a cost: write one",
		"costs: {get: 1}\nbudgets: []\n":                    "4:10: no budget: write one",
		"preset: shopify-graphql\nbudgets: [{name: shopify, limit: 5, window: 1s}]": "3:9: preset shopify-graphql " +
			"does not know the hosts: write hosts: [my-shop.myshopify.com]",
		"preset: youtube/legacy\nbudgets: [{name: own, limit: 5}]": `4:11: missing key "window": preset ` +
			`youtube/legacy has no budget "own" to take it from: write its window`,
		"preset: youtube/legacy\nbudgets: [{name: own, window: 1h}]": `4:11: missing key "limit": preset ` +
			`youtube/legacy has no budget "own" to take it from: write its limit`,
		"preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 99}, {name: youtube-day, limit: 98}]": `4:43: ` +
			`repeated budget "youtube-day" in one account: write another name`,
	}, "")
}

// TestMisreadHostsAreReportedOnce: hosts that are there and wrong were reported
// as missing too.
func TestMisreadHostsAreReportedOnce(t *testing.T) {
	mistaken(t, "version: 1\naccount: a\n", map[string]string{
		"hosts: [a.internal:81]\nroutes: {/x: get}\ninsecure: [A.internal:81, b.internal]\n": "5:27: host " +
			"b.internal is not in hosts: write it there too, or remove it here",
		"hosts: [http://a]\nroutes: {/x: get}\n": "3:9: a host is not " +
			"a URL: write the part between // and the next /",
		"hosts: api.example.com\nroutes: {/x: get}\n": `3:8: hosts is "api.example.com": write a list, [first, second]`,
		"hosts: [http://a]\nroutes: {/x: get}\ncredential: {file: k, header: Authorization}\n": "3:9: a host is not " +
			"a URL: write the part between // and the next /",
	}, "costs: {get: 1}\nbudgets: [{name: all, limit: 1, window: 1h}]\n")
}

// A value exactly at a bound is valid, and takes effect.
func TestValuesAtABoundAreValid(t *testing.T) {
	u := use(t,
		"reset_margin: 1h\ncosts: {get: 9}\nbudgets: [{name: all, limit: 9, window: 400d}, {name: day, limit: 9, "+
			"window: {day: UTC}, floor: {IN: 4, US: 5}, floor_until: 1h}, {name: month, limit: 9, count: units, "+
			"window: {month: UTC}, floor: {IN: 9}, floor_until: 26d22h}]").Upstreams()[0]
	if len(u.Budgets) != 3 || u.Budgets[2].FloorUntil.Hours() != 646 {
		t.Errorf("%+v", u.Budgets)
	}
}
