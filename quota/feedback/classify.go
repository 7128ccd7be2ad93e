package feedback

import (
	"net/http"
	"strconv"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Class is what kind of answer the upstream gave.
type Class uint8

const (
	// Fine is an answer that is not an error.
	Fine Class = iota
	// Exhausted means that a daily limit is spent.
	Exhausted
	// SlowDown means that calls come too fast for a limit per minute, or for
	// one that the answer does not name.
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

// Classification is what an answer says about the quota, for a program that
// reports errors to people. The zero Classification is an answer that is not an
// error.
type Classification struct {
	Class  Class
	Reason string // the upstream's word and message, without markup, at most quota.MaxReason bytes
	Bucket string // the upstream's name for the limit, or "default"; empty if no limit was hit

	// RetryAfter is how long to wait. For SlowDown it is a second to a day, and
	// a minute if the answer does not say. For Transient and Permanent it is
	// what the answer says, or 0. Otherwise it is 0.
	RetryAfter time.Duration
}

// defaultWait is the wait of a SlowDown that does not say.
const defaultWait = time.Minute

// Classify reads an error answer in a dialect, one of Names, with the rules
// that New applies. It never fails: if the body is malformed or has more than
// 64 KB, the status decides.
func Classify(dialect string, status int, header http.Header, body []byte) Classification {
	if status < http.StatusBadRequest {
		return Classification{}
	}
	r, err := newReader(dialect, Options{})
	if err != nil {
		panic(err)
	}
	a := r.newAnswer(quota.Call{}, &http.Response{StatusCode: status, Header: header})
	a.setBody(body[:min(len(body), maxBody)], len(body) <= maxBody)
	out := &outcome{}
	r.apply(a, out)
	h := r.judge(a, out)
	c := Classification{Class: Permanent, RetryAfter: min(out.retry.wait, MaxRetryAfter)}
	isFailure := status >= http.StatusInternalServerError
	switch {
	case h == nil && (isFailure || out.failed()), h != nil && h.rule == "" && isFailure:
		c.Class = Transient
	case h == nil:
	case h.kind == Blocked:
		c.Class, c.RetryAfter = Never, 0
	case h.about.span >= day:
		c.Class, c.RetryAfter = Exhausted, 0
	default:
		c.Class, c.RetryAfter = SlowDown, defaultWait
		if h.told {
			c.RetryAfter = min(max(h.wait, minWait), MaxRetryAfter)
		}
	}
	if h == nil {
		h = &halt{about: newLimit()}
	} else if c.Class != Transient && c.Class != Permanent {
		c.Bucket = h.about.bucket
	}
	c.Reason = a.classReason(h)
	return c
}

// classReason returns the upstream's word for what is wrong, or the status,
// followed by its message.
func (a *answer) classReason(h *halt) string {
	word := h.word
	if word == "" {
		reasons := RuleWords{"error.errors.*.reason", "error.details.*.reason", "error.code", "error.type"}
		word = RuleValues{{Body: reasons}}.text(a)
	}
	if _, isNumber := decimal(word); word == "" || isNumber {
		word = strconv.Itoa(a.status) + " " + http.StatusText(a.status)
	}
	if message := messageOf(a.doc); message != "" {
		word += ": " + message
	}
	return clean(word)
}
