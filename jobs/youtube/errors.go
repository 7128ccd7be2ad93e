package youtube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// APIError is what the upstream answered instead of a page. Its text holds
// neither a URL nor a body.
type APIError struct {
	Method  string
	Status  int // of HTTP
	Reason  string
	Message string
	Class   feedback.Class
	Bucket  string        // whose limit it is, when it is about one
	After   time.Duration // how long to wait, for a SlowDown or when the answer says so
	Err     error
}

// Error names the method, the status and the reason.
func (e *APIError) Error() string {
	said := "an answer without a reason"
	if e.Reason != "" {
		said = fmt.Sprintf("%q", e.Reason)
	}
	text := fmt.Sprintf("%s: the upstream answered %d, %s", e.Method, e.Status, said)
	if e.Message != "" {
		text += fmt.Sprintf(": %q", clip(e.Message))
	}
	return text
}

// Unwrap returns what Google's client said.
func (e *APIError) Unwrap() error { return e.Err }

// NotFound reports whether what was asked for does not exist: a region
// without a chart, for example. To ask again is of no use.
func (e *APIError) NotFound() bool {
	return e.Status == http.StatusNotFound || e.Reason == "videoChartNotFound"
}

// Stops reports whether the upstream said to stop calling for a time: for its
// quota, or by a Retry-After on any error.
func (e *APIError) Stops() bool {
	return e.Class == feedback.Exhausted || e.Class == feedback.SlowDown || e.After > 0
}

// keyRefused are the reasons, of any age, by which Google refuses a key itself
// (facts of public reports, 2026-11-20): it is wrong, has expired, or may not ask this API.
var keyRefused = regexp.MustCompile(`"(API_KEY_[A-Z_]+|SERVICE_DISABLED|keyInvalid|keyExpired|accessNotConfigured|ipRefererBlocked)"`)

// KeyRefused reports whether the upstream refuses the API key, whatever is
// asked with it.
func (e *APIError) KeyRefused() bool {
	answer, ok := errors.AsType[*googleapi.Error](e.Err)
	return ok && answer.Code >= 400 && answer.Code < 500 && keyRefused.MatchString(answer.Body)
}

// explain makes of an error of Google's client one that is fit to be shown: a
// local refusal as it is, without the request's URL.
func explain(method string, err error) error {
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
		class := feedback.Classify(answer.Code, answer.Header, []byte(answer.Body))
		e.Class, e.Bucket, e.After = class.Class, class.Bucket, class.RetryAfter
		if len(answer.Errors) > 0 {
			e.Reason, e.Message = answer.Errors[0].Reason, answer.Errors[0].Message
		}
		return e
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the upstream's answer is no whole JSON (%w)", method, err)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", method, err)
}

// empty is an answer that is JSON, and no list.
func empty(method string) error {
	return fmt.Errorf("%s: the upstream's answer holds no list; look at what stands between here and the API", method)
}

func clip(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
