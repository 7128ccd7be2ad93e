package feedback_test

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// dialectTests follow the documents that package feedback cites.
var dialectTests = []struct {
	dialect, name string
	budgets       []quota.Budget
	status        int
	header, body  string
	want          quota.Verdict
}{
	{"github", "fine", []quota.Budget{hour("core", 5000)}, 200, github(4999, 30*time.Minute, ""), "{}",
		left(quota.Verdict{}, "core", 4999)},
	{"github", "the last", []quota.Budget{hour("core", 5000), hour("search", 30)}, 200, github(0, 30*time.Minute, ""),
		"{}", stop("core", 30*time.Minute, "200, nothing left of core")},
	{"github", "primary", nil, 403, github(0, 30*time.Minute, ""),
		`{"message":"API rate limit exceeded for user ID 1."}`,
		stop("", 30*time.Minute, "403 rate limit exceeded core")},
	{"github", "primary, a 429", nil, 429, github(0, 2*time.Minute, ""), `{}`,
		slow("", 2*time.Minute, "429 Too Many Requests core")},
	{"github", "secondary", nil, 403, github(4000, 30*time.Minute, "Retry-After: 90"),
		`{"message":"You have exceeded a secondary rate limit."}`,
		slow("", 90*time.Second, "403 secondary rate limit")},
	{
		"github", "secondary, for an unknown time", nil, 403, github(4000, 30*time.Minute, ""),
		`{"message":"You have exceeded a secondary rate limit."}`,
		guess("", time.Minute, 24*time.Hour, "403 secondary rate limit"),
	},
	{"github", "forbidden", nil, 403, github(4000, 30*time.Minute, ""),
		`{"message":"Resource not accessible by integration"}`, quota.Verdict{}},
	{"github", "words of the caller's own", nil, 422, github(4000, 30*time.Minute, ""),
		`{"message":"Validation failed: API rate limit exceeded is no title"}`, quota.Verdict{}},
	{"github", "a bad request in those words", nil, 400, github(4000, 30*time.Minute, ""),
		`{"message":"API rate limit exceeded is no title"}`, quota.Verdict{}},
	{"github", "a bad key, beside the limit of no key", nil, 401, github(0, 30*time.Minute, ""),
		`{"message":"Bad credentials"}`, quota.Verdict{}},
	{"github", "its clock is an hour off", nil, 429,
		"Date: Fri, 20 Nov 2026 13:00:00 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: " +
			epoch(time.Hour+time.Minute), "", slow("", time.Minute, "429 Too Many Requests")},
	{"github", "its reset has passed", nil, 429, github(0, -time.Minute, ""), "",
		slow("", time.Second, "429 Too Many Requests core")},
	{
		"github", "its reset is years away", []quota.Budget{hour("core", 5000)}, 429,
		dated + "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1000000000000", "",
		slow("core", time.Second, "429 Too Many Requests"),
	},
	{"github", "beyond the window", []quota.Budget{hour("core", 5000)}, 429, github(0, 9*time.Hour, ""), "",
		stop("core", time.Hour, "429 Too Many Requests core")},
	{"github", "GraphQL", []quota.Budget{hour("graphql", 5000)}, 200, asJSON,
		`{"data":{"rateLimit":{"limit":5000,"cost":7,"remaining":300,"resetAt":"2026-11-20T12:30:00Z"}}}`,
		left(settled(7), "graphql", 300)},
	{
		"github", "GraphQL, spent", []quota.Budget{hour("graphql", 5000)}, 200, github(3, 30*time.Minute, ""),
		`{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded for user ID 1."}]}`,
		stop("graphql", 30*time.Minute, "200 RATE_LIMITED core"),
	},
	{"github", "GraphQL, an error in the caller's words", nil, 200, github(4000, 30*time.Minute, ""),
		`{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","message":"Could not resolve to a Repository ` +
			`with the name 'me/rate_limit'."}]}`, quota.Verdict{}},
	{"github", "a message in the caller's words", nil, 200, github(4000, 30*time.Minute, ""),
		`{"sha":"1","message":"Wait if the API rate limit exceeded, or a secondary rate limit"}`, quota.Verdict{}},
	{"github", "GraphQL, secondary", nil, 200, github(4000, 30*time.Minute, "Retry-After: 90"),
		`{"data":null,"errors":[{"message":"You have exceeded a secondary rate limit. Please wait a few minutes ` +
			`before you try again."}]}`, slow("", 90*time.Second, "200 secondary rate limit")},
	{
		"github", "GraphQL, secondary, for an unknown time", nil, 200, github(4000, 30*time.Minute, ""),
		`{"message":"you have exceeded a secondary rate limit and have been temporarily blocked from content ` +
			`creation."}`,
		guess("", time.Minute, 24*time.Hour, "200 secondary rate limit"),
	},
	{"github", "GraphQL, an error that begins with the caller's words", nil, 200, github(4000, 30*time.Minute, ""),
		`{"errors":[{"type":"NOT_FOUND","message":"You have exceeded a secondary rate limit"}]}`, quota.Verdict{}},
	{"github", "GraphQL, an error that quotes the caller", nil, 200, github(4000, 30*time.Minute, ""),
		`{"errors":[{"message":"Parse error on \"You have exceeded a secondary rate limit\""}]}`, quota.Verdict{}},
	{
		"github", "GraphQL, spent, as of 2026", nil, 200, github(0, 30*time.Minute, ""),
		`{"errors":[{"type":"RATE_LIMIT","code":"graphql_rate_limit"}]}`,
		stop("", 30*time.Minute, "200 RATE_LIMIT core"),
	},

	{
		"google", "the minute, in the day's words", nil, 429, asJSON + "Retry-After: 30",
		`{"error":{"message":"You have exceeded your quota of 100 requests per minute"}}`,
		slow("", 30*time.Second, "429 You have exceeded your quota of 100 requests per minute"),
	},
	{
		"google", "the minute, with RetryInfo", nil, 429, asJSON, violated("RequestsPerMinute", "50"),
		slow("", 37*time.Second, "429 You exceeded your current quota, please check your plan. generate_requests"),
	},

	{"shopify", "fine", nil, 200, asJSON,
		`{"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,` +
			`"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}}}}`, settled(46)},
	{"shopify", "throttled", nil, 200, asJSON,
		`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],` +
			`"extensions":{"cost":{"requestedQueryCost":752,"actualQueryCost":null,` +
			`"throttleStatus":{"maximumAvailable":1000.0,"currentlyAvailable":666.0,"restoreRate":50.0}}}}`,
		slow("", 2*time.Second, "200 throttled graphql")},
	{
		"shopify", "throttled, at a bucket that is full", nil, 200, asJSON,
		`{"errors":[{"message":"Throttled"}],"extensions":{"cost":{"requestedQueryCost":10,` +
			`"throttleStatus":{"currentlyAvailable":666,"restoreRate":1e-300}}}}`,
		guess("", 2*time.Second, 24*time.Hour, "200 throttled graphql"),
	},
	{
		"shopify", "throttled, at a bucket that never fills", nil, 200, asJSON,
		`{"errors":[{"message":"Throttled"}],"extensions":{"cost":{"requestedQueryCost":10,` +
			`"throttleStatus":{"currentlyAvailable":6,"restoreRate":0}}}}`,
		guess("", 2*time.Second, 24*time.Hour, "200 throttled graphql"),
	},
	{"shopify", "an error that is none of the quota's", nil, 200, asJSON,
		`{"errors":[{"message":"Field 'x' doesn't exist"}]}`, quota.Verdict{}},
	{"shopify", "an error in the caller's words", nil, 200, asJSON,
		`{"errors":[{"message":"Product 'throttled' does not exist","extensions":{"code":"NOT_FOUND"}}]}`,
		quota.Verdict{}},
	{"shopify", "REST", nil, 429, dated + "Retry-After: 2.0\nX-Shopify-Shop-Api-Call-Limit: 40/40", "",
		slow("", 2*time.Second, "429 Too Many Requests rest")},

	{"salesforce", "fine", []quota.Budget{hour("api", 10_000)}, 200,
		dated + "Sforce-Limit-Info: api-usage=1800/15000; per-app-api-usage=17/250(appName=x)", "", quota.Verdict{}},
	{"salesforce", "others spend too", []quota.Budget{hour("api", 10_000)}, 200,
		dated + "Sforce-Limit-Info: api-usage=14000/15000", "", left(quota.Verdict{}, "api", 1000)},
	{
		"salesforce", "spent", nil, 403, dated + "Sforce-Limit-Info: api-usage=15001/15000",
		`[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`,
		quota.Verdict{For: 15 * time.Minute, UpTo: 24 * time.Hour, Reason: "403 REQUEST_LIMIT_EXCEEDED api"},
	},
	{"salesforce", "forbidden", nil, 403, dated + "Sforce-Limit-Info: api-usage=1/15000",
		`[{"errorCode":"INSUFFICIENT_ACCESS"}]`, quota.Verdict{}},

	{"salesforce", "nothing used yet", []quota.Budget{hour("api", 20_000)}, 200,
		dated + "Sforce-Limit-Info: api-usage=0/15000", "", limited("api", 15_000)},
	{
		"salesforce", "one, used", nil, 200, dated + "Sforce-Limit-Info: api-usage=1/1", "",
		stop("", 2*time.Second, "200, nothing left of api"),
	},
	{"salesforce", "of none", nil, 200, dated + "Sforce-Limit-Info: api-usage=0/0", "", quota.Verdict{}},

	{
		"hubspot", "ten seconds", nil, 429, asJSON,
		`{"status":"error","errorType":"RATE_LIMIT","policyName":"TEN_SECONDLY_ROLLING"}`,
		slow("", 10*time.Second, "429 TEN_SECONDLY_ROLLING 10s"),
	},
	{
		"hubspot", "the day", nil, 429, asJSON,
		`{"errorType":"RATE_LIMIT","policyName":"DAILY","message":"You have reached your daily limit."}`,
		stop("", 11*time.Hour+30*time.Second, "429 DAILY day"),
	},
	{"hubspot", "ten seconds, spent", nil, 200,
		dated +
			"X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: " +
			"100000\nX-HubSpot-RateLimit-Interval-Milliseconds: 10000\nX-HubSpot-RateLimit-Max: " +
			"100\nX-HubSpot-RateLimit-Remaining: 0", "",
		stop("", 10*time.Second, "200, nothing left of 10s")},
	{"hubspot", "the day, spent", []quota.Budget{hour("hubspot-day", 250000)}, 200,
		dated + "X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: 0", "",
		stop("hubspot-day", 11*time.Hour+30*time.Second, "200, nothing left of day")},

	{"slack", "too fast", []quota.Budget{hour("all", 100),
		{Account: "my-project", Name: "tier2", Limit: 20, Window: quota.Sliding(time.Minute),
			Methods: []string{"search.list"}}}, 429,
		dated + "Retry-After: 30", `{"ok":false,"error":"ratelimited"}`,
		slow("tier2", 30*time.Second, "429 ratelimited")},

	{"reddit", "fine", []quota.Budget{hour("reddit", 100)}, 200,
		dated + "X-Ratelimit-Used: 70\nX-Ratelimit-Remaining: 30.0\nX-Ratelimit-Reset: 300", "",
		left(quota.Verdict{}, "reddit", 30)},
	{"reddit", "spent", nil, 200, dated + "X-Ratelimit-Used: 100\nX-Ratelimit-Remaining: 0.0\nX-Ratelimit-Reset: 300",
		"", stop("", 5*time.Minute, "200, nothing left")},

	{"openai", "fine", nil, 200, asJSON + "X-RateLimit-Remaining-Tokens: 1000\nX-RateLimit-Reset-Tokens: 6m0s",
		`{"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`, settled(21)},
	{"openai", "fine, and the last",
		[]quota.Budget{{Account: "my-project", Name: "rpm", Limit: 60, Window: quota.Sliding(time.Hour),
			Measure: quota.Calls}, hour("tpm", 1000)}, 200,
		asJSON +
			"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 6m0s\nX-RateLimit-Remaining-Tokens: " +
			"0\nX-RateLimit-Reset-Tokens: 120ms", `{"usage":{"total_tokens":21}}`,
		quota.Verdict{Settled: true, Units: 21, Budget: "rpm", For: 6 * time.Minute,
			Reason: "200, nothing left of requests"}},
	{"openai", "the last tokens",
		[]quota.Budget{{Account: "my-project", Name: "rpm", Limit: 60, Window: quota.Sliding(time.Hour),
			Measure: quota.Calls}, hour("tpm", 1000)}, 200,
		asJSON + "X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 6m0s", "",
		stop("tpm", 6*time.Minute, "200, nothing left of tokens")},
	{"openai", "too fast", nil, 429,
		asJSON + "X-RateLimit-Limit-Tokens: 1000\nX-RateLimit-Remaining-Tokens: 10\nX-RateLimit-Reset-Tokens: 7.66s",
		`{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`,
		slow("", 7660*time.Millisecond, "429 rate_limit_exceeded tokens")},
	{
		"openai", "a reset that is not a time", nil, 429,
		asJSON + "X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: soon", "",
		unexplained("", 2*time.Second, 24*time.Hour, "429 Too Many Requests tokens"),
	},
	{
		"openai", "a reset that has passed", nil, 429,
		asJSON + "X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: -6m0s", "",
		unexplained("", 2*time.Second, 24*time.Hour, "429 Too Many Requests tokens"),
	},
	{"openai", "no money", nil, 429, asJSON + "Retry-After: 20",
		`{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`,
		quota.Verdict{Never: true, Reason: "429 insufficient_quota"}},
	{"openai", "a stream", nil, 200, dated + "Content-Type: text/event-stream", `{"usage":{"total_tokens":21}}`,
		quota.Verdict{}},

	{"anthropic", "fine", nil, 200, asJSON,
		`{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":1000,` +
			`"output_tokens":20}}`, settled(35)},
	{"anthropic", "too fast", nil, 429,
		asJSON +
			"Retry-After: 12\nanthropic-ratelimit-input-tokens-remaining: " +
			"0\nanthropic-ratelimit-input-tokens-reset: 2026-11-20T12:00:40Z", `{"error":{"type":"rate_limit_error"}}`,
		slow("", 12*time.Second, "429 rate_limit_error input-tokens")},
	{"anthropic", "too fast, by its headers", nil, 429,
		asJSON +
			"anthropic-ratelimit-input-tokens-remaining: 0\nanthropic-ratelimit-input-tokens-reset: " +
			"2026-11-20T12:00:40Z", "", slow("", 40*time.Second, "429 Too Many Requests input-tokens")},
	{"anthropic", "overloaded", nil, 529, asJSON, `{"error":{"type":"overloaded_error"}}`, transient(0)},

	{"generic", "too fast", nil, 429, dated + "Retry-After: Fri, 20 Nov 2026 12:01:30 GMT", "",
		slow("", 90*time.Second, "429 Too Many Requests")},
	{"generic", "busy", nil, 503, dated + "Retry-After: 7", "", slow("", 7*time.Second, "503 Service Unavailable")},
	{"generic", "busy, until now", nil, 503, dated + "Retry-After: 0", "", transient(0)}, // not a retry at once
	{"generic", "missing, until now", []quota.Budget{hour("x", 100)}, 404, dated + "Retry-After: 0", "",
		quota.Verdict{}},
	{"generic", "forbidden", nil, 403, dated, "", quota.Verdict{}},
	{"generic", "forbidden for a while", nil, 403, dated + "Retry-After: 7", "",
		slow("", 7*time.Second, "403 Forbidden")},
	{"generic", "longer than the window", []quota.Budget{minutely}, 429, dated + "Retry-After: 3600", "",
		slow("minute", time.Hour, "429 Too Many Requests")},
	{"generic", "no longer than another window", []quota.Budget{minutely, hour("other", 10)}, 429,
		dated + "RateLimit-Limit: 100\nRateLimit-Remaining: 0\nRetry-After: 1800", "",
		slow("minute", 30*time.Minute, "429 Too Many Requests")},
	{"generic", "used, but not what remains", []quota.Budget{hour("x", 100)}, 200,
		dated + "X-RateLimit-Limit: 100\nX-RateLimit-Used: 70\nX-RateLimit-Reset: 300", "",
		left(quota.Verdict{}, "x", 30)},
	{"generic", "used up, but not what remains", nil, 200,
		dated + "X-RateLimit-Limit: 100\nX-RateLimit-Used: 101\nX-RateLimit-Reset: 300", "",
		stop("", 5*time.Minute, "200, nothing left")},
	{"generic", "used and remaining, without a limit", []quota.Budget{hour("x", 100)}, 200,
		dated + "X-RateLimit-Remaining: 30\nX-RateLimit-Used: 70\nX-RateLimit-Reset: 300", "",
		left(quota.Verdict{}, "x", 30)},
	{"generic", "a reset that is now", nil, 429, dated + "X-RateLimit-Reset: 0", "",
		slow("", time.Second, "429 Too Many Requests")},
	{"generic", "from 08, a reset that is now", nil, 429, dated + `RateLimit: "default";t=0`, "",
		slow("", time.Second, "429 Too Many Requests")},
	{"generic", "to 06", nil, 200,
		dated + "RateLimit-Limit: 100, 100;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: 30", "",
		stop("", 30*time.Second, "200, nothing left")},
	{"generic", "07", nil, 200, dated + "RateLimit: limit=100, remaining=0, reset=30\nRateLimit-Policy: 100;w=60", "",
		stop("", 30*time.Second, "200, nothing left")},
	{"generic", "07, without reset", nil, 200, dated + "RateLimit: limit=100, remaining=0\nRateLimit-Policy: 100;w=60",
		"", stop("", time.Minute, "200, nothing left")},
	{"generic", "from 08", []quota.Budget{hour("x", 100)}, 200, dated + `RateLimit: "default";r=50;t=300` + "\n" +
		`RateLimit-Policy: "default";q=100;w=3600`, "", left(quota.Verdict{}, "x", 50)},
	{"generic", "from 08, several", []quota.Budget{hour("x", 100), hour("my-burst", 100)}, 200,
		dated + `RateLimit: "burst";r=0;t=3, "day";r=50;t=300`, "",
		stop("my-burst", 3*time.Second, "200, nothing left of burst")},
	{"generic", "from 08, of the only policy, as older drafts write it", []quota.Budget{hour("x", 100)}, 200,
		dated + `RateLimit: "default";r=50;t=300` + "\n" + "RateLimit-Policy: 100;w=3600", "",
		left(quota.Verdict{}, "x", 50)},
	{"generic", "from 08, of another policy", []quota.Budget{hour("x", 100)}, 200,
		dated + `RateLimit: "default";r=50;t=300` + "\n" + `RateLimit-Policy: "burst";q=100;w=3600`, "",
		quota.Verdict{}},
	{"generic", "07, of the only policy, which is named", []quota.Budget{hour("x", 100)}, 200,
		dated + "RateLimit: remaining=50, reset=300\n" + `RateLimit-Policy: "burst";q=100;w=3600`, "",
		left(quota.Verdict{}, "x", 50)},
	{"generic", "from 08, of bytes", nil, 200,
		dated + `RateLimit: "x";r=0;t=30` + "\n" + `RateLimit-Policy: "x";q=100;qu="content-bytes"`, "",
		quota.Verdict{}},
	{"generic", "cost", nil, 200, dated + `RateLimit: "default";r=50;t=30;cost=4`, "", guessed(4)},
	{"generic", "cost in a header", nil, 200, dated + "RateLimit-Cost: 4", "", guessed(4)},
	{"generic", "an epoch", nil, 200, dated + "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + epoch(time.Minute), "",
		stop("", time.Minute, "200, nothing left")},
	{"generic", "no epoch", nil, 200, dated + "X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 60", "",
		stop("", time.Minute, "200, nothing left")},
	{"generic", "a limit of something else", []quota.Budget{hour("units", 5000)}, 200,
		dated + "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 59\nX-RateLimit-Reset: 300", "", limited("units", 60)},
	{"generic", "near its reset", []quota.Budget{hour("units", 60)}, 200,
		dated + "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 60", "", quota.Verdict{}},
	{"generic", "two budgets, which is not known", []quota.Budget{hour("a", 60), hour("b", 60)}, 200,
		dated + "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 300", "", quota.Verdict{}},
}
