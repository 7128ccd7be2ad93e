package feedback

import (
	"net/http"
	"slices"
	"strconv"
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
	// second to a day, and a minute when the answer does not say. For Transient and Permanent it is
	// what the answer says, or 0. For others it is 0.
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
	if len(body) > maxBody {
		body = nil
	}
	return newError(status, parse(body)).classify(ParseRetryAfter(header))
}

func (e *apiError) classify(after time.Duration, said bool) Answer {
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
	case e.says("per day", "-1d'", "daily limit exceeded", "exceeded your quota"):
		answer.Class = Exhausted
	case e.says("per minute"):
		answer.Class = SlowDown
	case found.named, e.has("rateLimitExceeded", "userRateLimitExceeded"), e.is(http.StatusTooManyRequests), e.name == "RESOURCE_EXHAUSTED",
		e.is(http.StatusForbidden) && slices.Contains(e.details, "RATE_LIMIT_EXCEEDED"):
		answer.Class = SlowDown
	case e.status >= http.StatusInternalServerError, e.code >= http.StatusInternalServerError:
		answer.Class = Transient
	}
	switch answer.Class {
	case Exhausted, SlowDown, Never:
		answer.Bucket, answer.Limit = found.bucket(e), found.limit
	case Transient, Permanent:
		answer.RetryAfter = after
	}
	if answer.Class == SlowDown {
		if !said {
			after = defaultWait
		}
		answer.RetryAfter = max(after, leastWait)
	}
	return answer
}
