package feedback

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// dialect is how one upstream reports its quota. All dialects follow the same
// rules; they differ mostly in where a response holds what.
type dialect struct {
	headers []limitHeaders
	texts   []string // JSON paths of an error's texts
	codes   []string // those that count in a successful response; nil is texts
	phrases []phrase // the first phrase that applies to one of the texts
	cost    []string // JSON paths of numbers that add up to what the call really cost
	body    string   // read successful responses if the request's path contains this; "/" is all, "" none

	pause    time.Duration   // how long to wait if the response does not say; 0 is a minute
	byMethod bool            // buckets belong to methods
	inspect  func(*response) // reads what the other fields cannot express; it runs before the rules
}

// phrase says what a text in an error means.
type phrase struct {
	text  string // in lower case
	class Class
	daily bool          // the limit is a daily one
	wait  time.Duration // if the response does not say; 0 is unknown

	bucket  string // the name of the limit, if the text implies it
	noLimit bool   // the error is about none of the limits in the response
}

// dialects returns the known dialects by name. Each cites the upstream's
// documentation; what that leaves out was observed, see the package's tests.
func dialects() map[string]dialect {
	return map[string]dialect{
		"google":     {byMethod: true, inspect: google},
		"generic":    {headers: generic(), inspect: ietf},
		"github":     github(),
		"shopify":    shopify(),
		"salesforce": salesforce(),
		"hubspot":    hubspot(),
		"slack":      slack(),
		"reddit":     {headers: []limitHeaders{{left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used", reset: "X-Ratelimit-Reset", format: delta}}},
		"openai":     openai(),
		"anthropic":  anthropic(),
	}
}

// github follows
// docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api and
// docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api;
// the error's type is RATE_LIMIT or RATE_LIMITED (yanyongyu/githubkit issue
// 271). A secondary limit may be a 200 without a type, see githubGraphQL.
func github() dialect {
	return dialect{
		headers: []limitHeaders{{max: "X-Ratelimit-Limit", left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used",
			reset: "X-Ratelimit-Reset", named: "X-Ratelimit-Resource", format: deltaOrEpoch}},
		texts: []string{"message", "errors.*.type", "errors.*.message"}, codes: []string{"errors.*.type"},
		phrases: []phrase{
			{text: "secondary rate limit", class: SlowDown, wait: time.Minute, noLimit: true},
			{text: "abuse detection", class: SlowDown, wait: time.Minute, noLimit: true},
			{text: "rate limit exceeded", class: Exhausted}, {text: "rate limit already exceeded", class: Exhausted},
			{text: "rate_limited", class: Exhausted}, {text: "rate_limit", class: Exhausted},
		},
		cost: []string{"data.rateLimit.cost"},
		body: "graphql", inspect: githubGraphQL,
	}
}

// shopify follows shopify.dev/docs/api/usage/limits.
func shopify() dialect {
	return dialect{
		headers: []limitHeaders{{bucket: "rest", pair: "X-Shopify-Shop-Api-Call-Limit", leaky: true}},
		texts:   []string{"errors.*.extensions.code", "errors.*.message"},
		phrases: []phrase{{text: "throttled", class: SlowDown}},
		cost:    []string{"extensions.cost.actualQueryCost"},
		body:    "graphql", inspect: shopifyThrottle,
	}
}

// salesforce has a limit over the trailing 24 hours: some calls return all the
// time, and no header says when.
// developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm
func salesforce() dialect {
	return dialect{
		headers: []limitHeaders{{bucket: "api", pair: "Sforce-Limit-Info"}},
		texts:   []string{"*.errorCode"},
		phrases: []phrase{{text: "request_limit_exceeded", class: Exhausted}},
		pause:   15 * time.Minute,
	}
}

// hubspot follows
// developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines; the
// names of its policies come from public reports.
func hubspot() dialect {
	return dialect{
		headers: []limitHeaders{
			{bucket: "day", max: "X-Hubspot-Ratelimit-Daily", left: "X-Hubspot-Ratelimit-Daily-Remaining", daily: true},
			{bucket: "10s", max: "X-Hubspot-Ratelimit-Max", left: "X-Hubspot-Ratelimit-Remaining",
				reset: "X-Hubspot-Ratelimit-Interval-Milliseconds", format: milliseconds},
		},
		texts: []string{"policyName"},
		phrases: []phrase{
			{text: "daily", class: Exhausted, daily: true, bucket: "day"},
			{text: "ten_secondly_rolling", class: SlowDown, wait: 10 * time.Second, bucket: "10s"},
			{text: "secondly", class: SlowDown, wait: time.Second},
		},
		pause: 10 * time.Second,
	}
}

// slack limits each method in each workspace:
// docs.slack.dev/apis/web-api/rate-limits.
func slack() dialect {
	return dialect{
		texts:    []string{"error"},
		phrases:  []phrase{{text: "ratelimited", class: SlowDown}, {text: "rate_limited", class: SlowDown}},
		byMethod: true,
		inspect:  func(res *response) { res.about.bucket = bucketName(res.call.Method) },
	}
}

// openai follows platform.openai.com/docs/guides/rate-limits. Its
// insufficient_quota means that the account has no money left.
func openai() dialect {
	return dialect{
		headers: headersFor("X-Ratelimit-Limit-?", "X-Ratelimit-Remaining-?", "X-Ratelimit-Reset-?", duration, "requests", "tokens"),
		texts:   []string{"error.code", "error.type"},
		phrases: []phrase{{text: "insufficient_quota", class: Never}, {text: "billing_hard_limit_reached", class: Never},
			{text: "billing_not_active", class: Never}, {text: "rate_limit_exceeded", class: SlowDown}},
		cost: []string{"usage.total_tokens"},
		body: "/",
	}
}

// anthropic follows docs.anthropic.com/en/api/rate-limits and /en/api/errors.
// Tokens read from a cache do not count towards the limits of current models.
func anthropic() dialect {
	return dialect{
		headers: headersFor("Anthropic-Ratelimit-?-Limit", "Anthropic-Ratelimit-?-Remaining", "Anthropic-Ratelimit-?-Reset", rfc3339,
			"requests", "tokens", "input-tokens", "output-tokens"),
		texts:   []string{"error.type"},
		phrases: []phrase{{text: "rate_limit_error", class: SlowDown}, {text: "overloaded_error", class: Transient}, {text: "billing_error", class: Never}},
		cost:    []string{"usage.input_tokens", "usage.cache_creation_input_tokens", "usage.output_tokens"},
		body:    "/",
	}
}

// headersFor returns the headers of several limits. In the names of the headers
// a question mark stands for the bucket.
func headersFor(most, left, reset string, format resetFormat, buckets ...string) []limitHeaders {
	var all []limitHeaders
	for _, bucket := range buckets {
		in := func(name string) string { return http.CanonicalHeaderKey(strings.Replace(name, "?", bucket, 1)) }
		all = append(all, limitHeaders{bucket: bucket, max: in(most), left: in(left), reset: in(reset), format: format})
	}
	return all
}

// generic returns headers that many upstreams send and no standard defines.
func generic() []limitHeaders {
	return []limitHeaders{
		{max: "X-Ratelimit-Limit", left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used", reset: "X-Ratelimit-Reset", format: deltaOrEpoch},
		{max: "X-Rate-Limit-Limit", left: "X-Rate-Limit-Remaining", reset: "X-Rate-Limit-Reset", format: deltaOrEpoch},
	}
}

// classify sets the class of a response and the limit that it is about, if the
// dialect's inspect has not.
func (r *reader) classify(res *response) {
	p, ok := r.findPhrase(res)
	if ok {
		res.class, res.daily = p.class, p.daily
		res.word = p.text
		if !res.hasWait && p.wait > 0 {
			res.wait, res.hasWait = p.wait, true
		}
	}
	l, spent := res.spentLimit()
	forbids := res.status == http.StatusForbidden && (spent || res.hasWait)
	stops := res.status == http.StatusTooManyRequests || forbids
	isLong := spent && (l.daily || l.reset > maxMinuteWait)
	switch {
	case res.class != Fine:
	case stops && isLong:
		res.class, res.daily = Exhausted, l.daily
	case stops:
		res.class = SlowDown
	case res.status >= http.StatusInternalServerError:
		res.class = Transient
	case res.status >= http.StatusBadRequest:
		res.class = Permanent
	}
	if res.about.bucket != "" || p.noLimit || !res.class.isLimit() {
		return
	}
	switch {
	case p.bucket != "":
		res.about.bucket = p.bucket
	case spent:
		res.about = l
	case len(res.limits) == 1:
		res.about = res.limits[0]
	}
}

// isLimit reports whether the class means that a limit is spent for a time.
func (c Class) isLimit() bool { return c == Exhausted || c == SlowDown }

// findPhrase returns the first phrase that occurs in a text of an error, or is
// a code of a successful response. It ignores phrases about limits in other
// errors than 403 and 429, which may quote the caller's own words.
func (r *reader) findPhrase(res *response) (phrase, bool) {
	paths, applies := r.texts, strings.Contains
	if res.status < http.StatusBadRequest { // its texts may be the caller's own
		applies = func(code, phrase string) bool { return code == phrase }
		if r.codes != nil {
			paths = r.codes
		}
	}
	quotes := res.status >= http.StatusBadRequest && res.status != http.StatusForbidden && res.status != http.StatusTooManyRequests
	found := texts(res.json, paths...)
	for _, p := range r.phrases {
		if quotes && p.class.isLimit() {
			continue
		}
		for _, text := range found {
			if applies(strings.ToLower(text[:min(len(text), maxText)]), p.text) {
				return p, true
			}
		}
	}
	return phrase{}, false
}

// readCost adds up the costs in the response's JSON.
func (res *response) readCost(paths []string) {
	for _, path := range paths {
		for _, v := range lookup(res.json, path) {
			if n, ok := number(v); ok && n >= 0 {
				res.cost, res.hasCost = min(res.cost+roundUp(n), quota.MaxLimit), true
			}
		}
	}
}

// githubGraphQL reads the rateLimit object that a query may ask for, and the
// secondary limit in a successful response.
func githubGraphQL(res *response) {
	for _, v := range lookup(res.json, "data.rateLimit") {
		l := unknownLimit("graphql")
		l.max, l.left = quantity(v, "limit"), quantity(v, "remaining")
		if text, ok := field[string](v, "resetAt"); ok {
			l.reset = rfc3339.parse(text, res.now)
		}
		res.limits = append(res.limits, l)
	}
	if res.status == http.StatusOK && res.isGraphQL() && hasSecondaryLimit(res.json) {
		res.class, res.word = SlowDown, "secondary rate limit"
		if !res.hasWait {
			res.wait, res.hasWait = time.Minute, true
		}
	}
}

// isGraphQL reports whether the request was a GraphQL query, by its path or by
// its method in costs.yaml. The message in a response of GitHub's REST API may
// be that of a commit.
func (res *response) isGraphQL() bool {
	return res.call.Method == "graphql" || strings.HasSuffix(res.path, "/graphql")
}

// hasSecondaryLimit reports whether a GraphQL response begins its message, or
// that of an error without a type, with GitHub's words for a secondary limit.
// Errors that quote the caller have a type, such as NOT_FOUND.
func hasSecondaryLimit(v any) bool {
	messages := texts(v, "message")
	for _, e := range lookup(v, "errors.*") {
		if kind, _ := field[any](e, "type"); kind == nil {
			messages = append(messages, texts(e, "message")...)
		}
	}
	return slices.ContainsFunc(messages, func(message string) bool {
		const words = "you have exceeded a secondary rate limit"
		return strings.EqualFold(message[:min(len(message), len(words))], words)
	})
}

// shopifyThrottle reads the state of the leaky bucket: it has reset when it
// holds what the query asks for.
func shopifyThrottle(res *response) {
	for _, cost := range lookup(res.json, "extensions.cost") {
		status, _ := field[map[string]any](cost, "throttleStatus")
		l := unknownLimit("graphql")
		l.max, l.left = quantity(status, "maximumAvailable"), quantity(status, "currentlyAvailable")
		l.leaky = true
		if rate, ok := number(status["restoreRate"]); ok && rate > 0 && l.left >= 0 {
			needed := max(1, quantity(cost, "requestedQueryCost"))
			l.reset = seconds(float64(needed-l.left) / rate)
		}
		res.limits = append(res.limits, l)
	}
}
