package feedback

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Class is what kind of response the upstream gave.
type Class uint8

const (
	// Fine is a response that is not an error.
	Fine Class = iota
	// Exhausted means that a daily limit is spent.
	Exhausted
	// SlowDown means that calls come too fast for a limit per minute, or for
	// one that the response does not name.
	SlowDown
	// Never means that the limit is 0: only its owner can raise it.
	Never
	// Transient means that the upstream failed; the same call may
	// succeed later.
	Transient
	// Permanent means that the same call will fail again: a bad request, a
	// key without permission, a missing resource.
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

// Classification is what a response of one of Google's APIs says about its
// quota. The zero Classification is a response that is not an error.
type Classification struct {
	Class  Class
	Reason string // the upstream's word and message, without markup, at most quota.MaxReason bytes
	Bucket string // the short name of the limit's quota metric, or "default"; empty if no limit was hit

	// RetryAfter is how long to wait. For SlowDown it is a second to a day, and
	// a minute if the response does not say. For Transient and Permanent it is
	// what the response says, or 0. Otherwise it is 0.
	RetryAfter time.Duration
	Limit      quota.Units // the upstream's limit; 0 if unknown, and for Never
}

// defaultWait and minWait are the default and the minimum wait of a SlowDown. A
// limit that resets later than maxMinuteWait is not a limit per minute.
const (
	defaultWait   = time.Minute
	minWait       = time.Second
	maxMinuteWait = 10 * time.Minute
)

const defaultBucket = "default"

// Classify reads a response of one of Google's APIs. It consults the body's
// ErrorInfo and QuotaFailure first, then a period in the message, then the
// reasons, then the rest of the message, and the status last, because a status
// is ambiguous: since 2026-06 a 429 with rateLimitExceeded may be a daily limit
// (observed 2026-09-25, without details 2026-05-27,
// googleapis/google-api-python-client issue 2753), and a 403 may be a quota or
// a permission. It never fails: if the body is malformed or has more than 64
// KB, the status decides.
func Classify(status int, header http.Header, body []byte) Classification {
	if status < http.StatusBadRequest {
		return Classification{}
	}
	if len(body) > maxErrorBody {
		body = nil
	}
	e := parseError(status, parseJSON(body))
	wait, hasWait := ParseRetryAfter(header)
	if !hasWait {
		wait, hasWait = e.retryDelay()
	}
	return e.classify(wait, hasWait)
}

// classify is Classify for a response that asks for wait, if hasWait.
func (e *apiError) classify(wait time.Duration, hasWait bool) Classification {
	c := Classification{Class: Permanent, Reason: e.text()}
	isRateLimit := e.has("rateLimitExceeded", "userRateLimitExceeded") ||
		e.is(http.StatusForbidden) && slices.Contains(e.details, "RATE_LIMIT_EXCEEDED")
	found := e.limitInfo()
	switch {
	case found.hasLimit && found.limit == 0:
		c.Class = Never
	case found.rate == perDay:
		c.Class = Exhausted
	case found.rate == perMinute:
		c.Class = SlowDown
	case e.limitMentions("per day", "-1d'"):
		c.Class = Exhausted
	case e.limitMentions("per minute", "per 100 seconds"):
		c.Class = SlowDown
	case e.has("quotaExceeded", "dailyLimitExceeded"), e.limitMentions("daily limit exceeded", "exceeded your quota"):
		c.Class = Exhausted
	case found.named, isRateLimit, e.is(http.StatusTooManyRequests), e.name == "RESOURCE_EXHAUSTED":
		c.Class = SlowDown
	case e.status >= http.StatusInternalServerError, e.code >= http.StatusInternalServerError:
		c.Class = Transient
	}
	switch c.Class {
	case Exhausted, SlowDown, Never:
		c.Bucket, c.Limit = found.bucket(e), found.limit
	case Transient, Permanent:
		c.RetryAfter = wait
	}
	if c.Class == SlowDown {
		if !hasWait {
			wait = defaultWait
		}
		c.RetryAfter = max(wait, minWait)
	}
	return c
}
