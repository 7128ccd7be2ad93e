package feedback

import (
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// dialect is how one upstream talks about its quota. All dialects are read by
// the same rules; most of what differs is where things stand.
type dialect struct {
	headers []headers
	texts   []string // paths in an error's JSON at which its words stand
	words   []word   // what they mean; the first that one of the texts holds
	cost    []string // paths in the JSON of numbers whose sum the call really cost
	body    string   // look into answers that are fine, when the request's path holds this; "/" is all, "" none

	pause    time.Duration // how long to wait when nobody says; 0 is a minute
	byMethod bool          // the buckets are of methods
	look     func(*answer) // what the rest cannot say; it runs before the rules
}

// word is what words of an error mean.
type word struct {
	text  string // in lower case
	class Class
	day   bool          // the day's limit
	wait  time.Duration // when the answer does not say; 0: not known

	bucket string // whose limit it is, when the words say so
	whole  bool   // whatever limits the answer tells of, it is about none of them
}

// dialects are the upstreams known, with where it is said. What their documents
// do not say, facts measured or read elsewhere do; see the package's tests.
func dialects() map[string]dialect {
	return map[string]dialect{
		"google":     {byMethod: true, look: google},
		"generic":    {headers: generic(), look: ietf},
		"github":     github(),
		"shopify":    shopify(),
		"salesforce": salesforce(),
		"hubspot":    hubspot(),
		"slack":      slack(),
		"reddit":     {headers: []headers{{left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used", reset: "X-Ratelimit-Reset", clock: delta}}},
		"openai":     openai(),
		"anthropic":  anthropic(),
	}
}

// github is as of docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
// and docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api;
// the error's type is RATE_LIMIT or RATE_LIMITED (yanyongyu/githubkit issue 271).
func github() dialect {
	return dialect{
		headers: []headers{{max: "X-Ratelimit-Limit", left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used",
			reset: "X-Ratelimit-Reset", named: "X-Ratelimit-Resource", clock: either}},
		texts: []string{"message", "errors.*.type", "errors.*.message"},
		words: []word{
			{text: "secondary rate limit", class: SlowDown, wait: time.Minute, whole: true},
			{text: "abuse detection", class: SlowDown, wait: time.Minute, whole: true},
			{text: "rate limit exceeded", class: Exhausted}, {text: "rate limit already exceeded", class: Exhausted},
			{text: "rate_limit", class: Exhausted},
		},
		cost: []string{"data.rateLimit.cost"},
		body: "graphql", look: githubGraphQL,
	}
}

// shopify is as of shopify.dev/docs/api/usage/limits.
func shopify() dialect {
	return dialect{
		headers: []headers{{bucket: "rest", pair: "X-Shopify-Shop-Api-Call-Limit", leaky: true}},
		texts:   []string{"errors.*.extensions.code", "errors.*.message"},
		words:   []word{{text: "throttled", class: SlowDown}},
		cost:    []string{"extensions.cost.actualQueryCost"},
		body:    "graphql", look: shopifyThrottle,
	}
}

// salesforce has a limit of the trailing 24 hours, so that some calls come
// back all the time, and nothing says when:
// developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm
func salesforce() dialect {
	return dialect{
		headers: []headers{{bucket: "api", pair: "Sforce-Limit-Info"}},
		texts:   []string{"*.errorCode"},
		words:   []word{{text: "request_limit_exceeded", class: Exhausted}},
		pause:   15 * time.Minute,
	}
}

// hubspot is as of developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines;
// the names of its policies are from public reports.
func hubspot() dialect {
	return dialect{
		headers: []headers{
			{bucket: "day", max: "X-Hubspot-Ratelimit-Daily", left: "X-Hubspot-Ratelimit-Daily-Remaining", day: true},
			{bucket: "10s", max: "X-Hubspot-Ratelimit-Max", left: "X-Hubspot-Ratelimit-Remaining",
				reset: "X-Hubspot-Ratelimit-Interval-Milliseconds", clock: millis},
		},
		texts: []string{"policyName"},
		words: []word{
			{text: "daily", class: Exhausted, day: true, bucket: "day"},
			{text: "ten_secondly_rolling", class: SlowDown, wait: 10 * time.Second, bucket: "10s"},
			{text: "secondly", class: SlowDown, wait: time.Second},
		},
		pause: 10 * time.Second,
	}
}

// slack limits each method in each workspace: docs.slack.dev/apis/web-api/rate-limits.
func slack() dialect {
	return dialect{
		texts:    []string{"error"},
		words:    []word{{text: "ratelimited", class: SlowDown}, {text: "rate_limited", class: SlowDown}},
		byMethod: true,
		look:     func(a *answer) { a.about.bucket = bucketName(a.call.Method) },
	}
}

// openai is as of platform.openai.com/docs/guides/rate-limits. Its insufficient
// quota is one of money.
func openai() dialect {
	return dialect{
		headers: each("X-Ratelimit-Limit-?", "X-Ratelimit-Remaining-?", "X-Ratelimit-Reset-?", spelled, "requests", "tokens"),
		texts:   []string{"error.code", "error.type"},
		words: []word{{text: "insufficient_quota", class: Never}, {text: "billing_hard_limit_reached", class: Never},
			{text: "billing_not_active", class: Never}, {text: "rate_limit_exceeded", class: SlowDown}},
		cost: []string{"usage.total_tokens"},
		body: "/",
	}
}

// anthropic is as of docs.anthropic.com/en/api/rate-limits and /en/api/errors.
// Tokens read from a cache do not count for the limits of current models.
func anthropic() dialect {
	return dialect{
		headers: each("Anthropic-Ratelimit-?-Limit", "Anthropic-Ratelimit-?-Remaining", "Anthropic-Ratelimit-?-Reset", rfc3339,
			"requests", "tokens", "input-tokens", "output-tokens"),
		texts: []string{"error.type"},
		words: []word{{text: "rate_limit_error", class: SlowDown}, {text: "overloaded_error", class: Transient}, {text: "billing_error", class: Never}},
		cost:  []string{"usage.input_tokens", "usage.cache_creation_input_tokens", "usage.output_tokens"},
		body:  "/",
	}
}

// each returns headers for each of several limits, whose name stands for ?.
func each(most, left, reset string, c clock, buckets ...string) []headers {
	var all []headers
	for _, bucket := range buckets {
		in := func(name string) string { return http.CanonicalHeaderKey(strings.Replace(name, "?", bucket, 1)) }
		all = append(all, headers{bucket: bucket, max: in(most), left: in(left), reset: in(reset), clock: c})
	}
	return all
}

// generic are the headers that many send and no document fixes.
func generic() []headers {
	return []headers{
		{max: "X-Ratelimit-Limit", left: "X-Ratelimit-Remaining", used: "X-Ratelimit-Used", reset: "X-Ratelimit-Reset", clock: either},
		{max: "X-Rate-Limit-Limit", left: "X-Rate-Limit-Remaining", reset: "X-Rate-Limit-Reset", clock: either},
	}
}

// classify says what an answer is that its dialect did not.
func (r *reader) classify(a *answer) {
	w, ok := r.said(a)
	if ok {
		a.class, a.word, a.day = w.class, w.text, w.day
		if !a.said && w.wait > 0 {
			a.after, a.said = w.wait, true
		}
	}
	l, spent := a.spent()
	stops := a.status == http.StatusTooManyRequests || a.status == http.StatusForbidden && (spent || a.said)
	switch {
	case a.class != Fine:
	case stops && spent && l.reset > maxMinuteWait, stops && spent && l.day:
		a.class, a.day = Exhausted, l.day
	case stops:
		a.class = SlowDown
	case a.status >= http.StatusInternalServerError:
		a.class = Transient
	case a.status >= http.StatusBadRequest:
		a.class = Permanent
	}
	switch {
	case a.about.bucket != "" || w.whole || a.class != Exhausted && a.class != SlowDown:
	case w.bucket != "":
		a.about.bucket = w.bucket
	case spent:
		a.about = l
	case len(a.limits) == 1:
		a.about = a.limits[0]
	}
}

// said returns what the words of an answer mean. A limit is not spoken of in
// what is an error of another kind: its words may be the caller's own.
func (r *reader) said(a *answer) (word, bool) {
	var texts []string
	for _, path := range r.texts {
		for _, v := range at(a.json, path) {
			if text, ok := v.(string); ok {
				texts = append(texts, strings.ToLower(text[:min(len(text), maxText)]))
			}
		}
	}
	for _, w := range r.words {
		limits := w.class == Exhausted || w.class == SlowDown
		if limits && a.status >= http.StatusBadRequest && a.status != http.StatusForbidden && a.status != http.StatusTooManyRequests {
			continue
		}
		for _, text := range texts {
			if strings.Contains(text, w.text) {
				return w, true
			}
		}
	}
	return word{}, false
}

// readCost adds up what the answer says that the call cost.
func (a *answer) readCost(paths []string) {
	for _, path := range paths {
		for _, v := range at(a.json, path) {
			if n, ok := number(v); ok && n >= 0 {
				a.cost, a.costed = min(a.cost+up(n), quota.MaxLimit), true
			}
		}
	}
}

// githubGraphQL reads the rateLimit that a query may ask for.
func githubGraphQL(a *answer) {
	for _, v := range at(a.json, "data.rateLimit") {
		l := limit{bucket: "graphql", max: quantity(v, "limit"), left: quantity(v, "remaining"), reset: unknownReset}
		if text, ok := field[string](v, "resetAt"); ok {
			l.reset = rfc3339.read(text, a.now)
		}
		a.limits = append(a.limits, l)
	}
}

// shopifyThrottle reads the state of the bucket, which fills all the time: it is
// whole again when it holds what the call asked for.
func shopifyThrottle(a *answer) {
	for _, cost := range at(a.json, "extensions.cost") {
		status, _ := field[map[string]any](cost, "throttleStatus")
		l := limit{bucket: "graphql", max: quantity(status, "maximumAvailable"), left: quantity(status, "currentlyAvailable"), reset: unknownReset, leaky: true}
		rate, ok := number(status["restoreRate"])
		if asked := quantity(cost, "requestedQueryCost"); ok && rate > 0 && l.left >= 0 {
			l.reset = seconds(float64(max(asked, 1)-l.left) / rate)
		}
		a.limits = append(a.limits, l)
	}
}
