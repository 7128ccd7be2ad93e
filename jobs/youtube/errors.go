package youtube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// APIError is an error answer of the API. Its text includes neither the URL nor
// the body.
type APIError struct {
	Method  string
	Status  int    // HTTP status code
	Reason  string // reason of the first error in the answer; may be empty
	Message string // its message; may be empty
	Class   feedback.Class
	Bucket  string        // the quota bucket that is exhausted; "" if none is named
	After   time.Duration // how long to wait; 0 if the answer does not say
	Err     error         // the error of Google's client
}

// Error names the method, the status and the reason.
func (e *APIError) Error() string {
	said := "an answer without a reason"
	if e.Reason != "" {
		said = fmt.Sprintf("%q", e.Reason)
	}
	text := fmt.Sprintf("%s: the upstream answered %d, %s", e.Method, e.Status, said)
	if e.Message != "" {
		text += fmt.Sprintf(": %q", human.Shorten(e.Message, quota.MaxReason))
	}
	return text
}

// Unwrap returns e.Err.
func (e *APIError) Unwrap() error { return e.Err }

// NotFound reports whether the API says that the requested chart or channels do
// not exist. A retry would fail as well. Any other 404, such as that of a proxy
// or of a wrong endpoint, is a failed call.
func (e *APIError) NotFound() bool {
	switch e.Method {
	case "videos.list":
		return e.Reason == "videoChartNotFound"
	case "channels.list":
		return e.Reason == "channelNotFound"
	}
	return false
}

// Stops reports whether the upstream asks to pause calls, because its quota is
// exhausted or with a Retry-After on any error.
func (e *APIError) Stops() bool {
	return e.Class == feedback.Exhausted || e.Class == feedback.SlowDown || e.After > 0
}

// keyRefused matches the reasons with which Google refuses a key, old ones
// included: it is wrong, has expired, or may not use this API.
var keyRefused = regexp.MustCompile(`"(API_KEY_[A-Z_]+|SERVICE_DISABLED|keyInvalid|keyExpired|accessNotConfigured|` +
	`ipRefererBlocked)"`)

// KeyRefused reports whether the upstream refuses the API key itself.
func (e *APIError) KeyRefused() bool {
	answer, ok := errors.AsType[*googleapi.Error](e.Err)
	return ok && answer.Code/100 == 4 && keyRefused.MatchString(answer.Body)
}

// cleanError converts an error of Google's client to one without the request's
// URL. A local refusal is returned unwrapped.
func cleanError(method string, err error) error {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return refused
	}
	if never, ok := errors.AsType[*quota.NeverFitsError](err); ok {
		return never
	}
	if googleapi.IsNotModified(err) {
		return ErrNotModified
	}
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		e := &APIError{Method: method, Status: answer.Code, Err: err}
		class := feedback.Classify("google", answer.Code, answer.Header, []byte(answer.Body))
		e.Class = class.Class
		e.Bucket = class.Bucket
		e.After = class.RetryAfter
		if len(answer.Errors) > 0 {
			e.Reason, e.Message = answer.Errors[0].Reason, answer.Errors[0].Message
		}
		return e
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the upstream's answer is malformed or truncated JSON (%w); try again", method, err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", method, err)
}

// checkList returns the error of a call, if any, or one for an answer that is
// JSON but not a list.
func checkList(method string, isList bool, err error) error {
	switch {
	case err != nil:
		return cleanError(method, err)
	case !isList:
		return fmt.Errorf("%s: the upstream's answer is not a list; check the endpoint and any proxy before the API",
			method)
	}
	return nil
}
