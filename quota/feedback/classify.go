package feedback

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Class is what an answer says about the quota.
type Class uint8

const (
	// Fine is an answer that is no error.
	Fine Class = iota
	// Exhausted means that the day's quota of a bucket is spent.
	Exhausted
	// SlowDown means that calls come too fast, for a minute's limit or one
	// that is not named.
	SlowDown
	// Never means that the limit is 0: no wait lifts it, somebody must.
	Never
	// Transient means that the upstream failed; the same call may succeed later.
	Transient
	// Permanent means that the same call fails again: a bad request, a key
	// that is not allowed, something that is not there.
	Permanent
)

// String returns the class in lower case: "slow down".
func (c Class) String() string {
	names := [...]string{"fine", "exhausted", "slow down", "never", "transient", "permanent"}
	if int(c) >= len(names) {
		return "class " + strconv.Itoa(int(c))
	}
	return names[c]
}

// Answer is what one answer of an upstream says.
type Answer struct {
	Class  Class
	Reason string // the upstream's word and message, without markup, at most 200 bytes
	Bucket string // whose limit it is: the quota metric's short name, or "default"; empty when it is about none

	// RetryAfter is how long to wait. For SlowDown it is always set, from a
	// second to 10 minutes for a minute's limit and a day for others, and a
	// minute when the answer does not say. For Transient it is what the
	// answer says, or 0. For others it is 0.
	RetryAfter time.Duration
	Limit      quota.Units // the upstream's own limit; 0 when it does not say, and for Never
}

// The wait of a SlowDown.
const (
	defaultWait   = time.Minute
	leastWait     = time.Second
	maxMinuteWait = 10 * time.Minute
)

const defaultBucket = "default"

// Classify reads an answer of Google's APIs. It looks at the ErrorInfo of the
// body first, then at the reasons, at the message, and at the status last,
// because one status serves for several cases: since 2026-06 a 429 with
// rateLimitExceeded may be a bucket's daily limit (observed 2026-09-25,
// without details 2026-05-27, googleapis/google-api-python-client issue 2753),
// and a 403 may be a quota or a permission. It never fails: a body that it
// cannot read, or that has more than 64 KB, leaves the status.
func Classify(status int, header http.Header, body []byte) Answer {
	if status < http.StatusBadRequest {
		return Answer{}
	}
	e := readError(status, body)
	answer := Answer{Class: Permanent, Reason: e.text()}
	found, period := e.limit()
	switch {
	case found.said && found.limit == 0:
		answer.Class = Never
	case period == perDay:
		answer.Class = Exhausted
	case period == perMinute:
		answer.Class = SlowDown
	case e.has("quotaExceeded", "dailyLimitExceeded"):
		answer.Class = Exhausted
	case e.says("per day"):
		answer.Class = Exhausted
	case e.says("per minute"):
		answer.Class, period = SlowDown, perMinute
	case found.metric != "", e.has("rateLimitExceeded", "userRateLimitExceeded"), e.is(http.StatusTooManyRequests):
		answer.Class = SlowDown
	case status >= http.StatusInternalServerError, e.code >= http.StatusInternalServerError:
		answer.Class = Transient
	}
	after, said := ParseRetryAfter(header)
	switch answer.Class {
	case Exhausted, SlowDown, Never:
		answer.Bucket, answer.Limit = found.bucket(e), found.limit
	case Transient:
		answer.RetryAfter = after
	}
	if answer.Class == SlowDown {
		answer.RetryAfter = wait(after, said, period)
	}
	return answer
}

func wait(after time.Duration, said bool, p period) time.Duration {
	if !said {
		return defaultWait
	}
	if p == perMinute {
		after = min(after, maxMinuteWait)
	}
	return max(after, leastWait)
}

// period is what a limit is for.
type period uint8

const (
	unknown period = iota
	perMinute
	perDay
)

// limitInfo is what an ErrorInfo says about a limit.
type limitInfo struct {
	metric string // youtube.googleapis.com/search_list
	limit  quota.Units
	said   bool // limit is what the answer says
}

// limit returns the limit that the details name, the longest of several.
func (e *apiError) limit() (found limitInfo, longest period) {
	for _, data := range e.metadata {
		name, unit, metric := data["quota_limit"], data["quota_unit"], data["quota_metric"]
		if name == "" && unit == "" {
			continue
		}
		p := periodOf(name, unit)
		info := limitInfo{metric: metric}
		if value, ok := digits(data["quota_limit_value"]); ok && value <= int64(quota.MaxLimit) {
			info.limit, info.said = quota.Units(value), true
		}
		if info.said && info.limit == 0 {
			return info, p
		}
		if found == (limitInfo{}) || p > longest {
			found, longest = info, p
		}
	}
	return found, longest
}

func periodOf(name, unit string) period {
	name, unit = strings.ToLower(name), strings.ToLower(unit)
	is := func(prefix string) bool { return unit == prefix || strings.HasPrefix(unit, prefix+"/") }
	switch {
	case is("1/d"), strings.Contains(name, "perday"):
		return perDay
	case is("1/min"), strings.Contains(name, "perminute"):
		return perMinute
	}
	return unknown
}

// bucket returns the metric's short name, from the details or else from the
// message, which has only a name for people.
func (l limitInfo) bucket(e *apiError) string {
	metric := l.metric[strings.LastIndexByte(l.metric, '/')+1:]
	if metric == "" {
		switch metric = e.metricInMessage(); metric {
		case "Queries":
			metric = ""
		case "Search Queries":
			metric = "search_list"
		case "Video Uploads":
			metric = "video_insert"
		}
	}
	metric = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, metric[:min(len(metric), 100)])
	if metric == "" {
		return defaultBucket
	}
	return metric
}

// has reports whether the body gives one of these reasons.
func (e *apiError) has(reasons ...string) bool {
	return slices.ContainsFunc(e.reasons, func(r string) bool { return slices.Contains(reasons, r) })
}

// is reports whether the status, or the body's own code, which may differ, is
// this one.
func (e *apiError) is(code int) bool { return e.status == code || e.code == code }

// says reports whether a message about a quota or limit holds these words.
func (e *apiError) says(words string) bool {
	if !e.is(http.StatusForbidden) && !e.is(http.StatusTooManyRequests) {
		return false
	}
	return slices.ContainsFunc(e.messages, func(message string) bool {
		message = strings.ToLower(message)
		return strings.Contains(message, words) && (strings.Contains(message, "quota") || strings.Contains(message, "limit"))
	})
}
