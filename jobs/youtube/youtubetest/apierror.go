package youtubetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// project is the number of the project every key belongs to.
const project = "123456789012"

// apiError is an error in the shape of Google's JSON APIs. Bodies marked
// "recorded" match public reports; the others follow the documented shape.
type apiError struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Errors  []errorItem `json:"errors"`
	Status  string      `json:"status,omitempty"`
	Details []errorInfo `json:"details,omitempty"`
}

type errorItem struct {
	Message      string `json:"message"`
	Domain       string `json:"domain"`
	Reason       string `json:"reason"`
	Location     string `json:"location,omitempty"`
	LocationType string `json:"locationType,omitempty"`
	ExtendedHelp string `json:"extendedHelp,omitempty"`
}

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func newError(code int, domain, reason, message string) *apiError {
	return &apiError{Code: code, Message: message,
		Errors: []errorItem{{Message: message, Domain: domain, Reason: reason}}}
}

// at names the invalid parameter.
func (e *apiError) at(parameter string) *apiError {
	e.Errors[0].Location, e.Errors[0].LocationType = parameter, "parameter"
	return e
}

// with adds a status and an ErrorInfo, which newer answers have.
func (e *apiError) with(status, reason, domain string, metadata map[string]string) *apiError {
	e.Status = status
	e.Details = []errorInfo{{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: reason, Domain: domain,
		Metadata: metadata}}
	return e
}

func failed(e *apiError, req *request) answer {
	return answer{status: e.Code, body: encode(map[string]*apiError{"error": e}, req)}
}

// encode writes v as Google does: indented, unless prettyPrint=false.
func encode(v any, req *request) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	if req.query.Get("prettyPrint") != "false" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		panic("youtubetest: " + err.Error()) // only types of this package come here
	}
	return buf.Bytes()
}

func errNoSuchMethod() *apiError {
	return newError(http.StatusNotFound, "global", "notFound", "Not Found")
}

// errNoKey is the error without a key. Its text is recorded, 2022 to 2026.
func errNoKey() *apiError {
	e := newError(http.StatusForbidden, "global", "forbidden",
		"Method doesn't allow unregistered callers (callers without established identity). "+
			"Please use API Key or other form of API consumer identity to call this API.")
	e.Status = "PERMISSION_DENIED"
	return e
}

// errBadKey is the error for an unknown key; recorded, 2026.
func errBadKey() *apiError {
	return newError(http.StatusBadRequest, "global", "badRequest", "API key not valid. Please pass a valid API key.").
		with("INVALID_ARGUMENT", "API_KEY_INVALID", "googleapis.com",
			map[string]string{"service": "youtube.googleapis.com"})
}

// errRegion is the error for an unknown region; recorded in
// googleapis/google-api-dotnet-client issue 556, 2015.
func errRegion() *apiError {
	return newError(http.StatusBadRequest, "youtube.parameter", "invalidRegionCode",
		"The <code>regionCode</code> parameter specifies an invalid region code.").at("regionCode")
}

func errPageToken() *apiError {
	return newError(http.StatusBadRequest, "youtube.parameter", "invalidPageToken",
		"The request specifies an invalid page token.").at("pageToken")
}

// errNoChart is a 404 in public test suites of 2026; the reference page
// says 400.
func errNoChart() *apiError {
	return newError(http.StatusNotFound, "youtube.video", "videoChartNotFound",
		"The requested video chart is not supported or is not available.")
}

// errNoFilter is the error without a filter. Its text is recorded, for example
// in python-youtube's error fixture.
func errNoFilter(expected string) *apiError {
	return newError(http.StatusBadRequest, "youtube.parameter", "missingRequiredParameter",
		"No filter selected. Expected one of: "+expected)
}

func errInvalid(parameter, message string) *apiError {
	return newError(http.StatusBadRequest, "global", "invalidParameter", message).at(parameter)
}

// refusal returns the error of an exhausted bucket. Both bodies are recorded:
// 403 in googleapis/google-api-php-client issue 2055 (2021, the same in 2026),
// 429 on 2026-09-25.
func (s *Server) refusal(now time.Time, bucket string) *apiError {
	if bucket == DefaultBucket {
		return errFor("quotaExceeded", 0)
	}
	from, _ := s.window(now)
	return errQuota("Search Queries", "Search Queries per day", map[string]string{
		"quota_metric":      "youtube.googleapis.com/search_list",
		"quota_limit":       "defaultSearchListPerDayPerProject",
		"quota_unit":        "1/d/{project}",
		"quota_limit_value": strconv.FormatInt(s.limits[bucket], 10),
		"window_start_time": strconv.FormatInt(from.Unix(), 10),
	})
}

// errQuota is the 429 of a limit that is reported with an ErrorInfo.
func errQuota(metric, limit string, metadata map[string]string) *apiError {
	metadata["service"] = "youtube.googleapis.com"
	metadata["consumer"] = "projects/" + project
	metadata["quota_location"] = "global"
	return newError(http.StatusTooManyRequests, "global", "rateLimitExceeded", fmt.Sprintf(
		"Quota exceeded for quota metric '%s' and limit '%s' of service 'youtube.googleapis.com' for consumer "+
			"'project_number:%s'.",
		metric, limit, project)).with("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "googleapis.com", metadata)
}

// errFor returns the error that a Fault names by reason, status, or both. A
// status below 400 does not change the code in the body.
func errFor(reason string, status int) *apiError {
	reason = cmp.Or(reason, usualReason(status))
	if reason == "rateLimitExceeded" && status == http.StatusTooManyRequests {
		// By analogy: no report of YouTube's per-minute error is known.
		return errQuota("Queries", "Queries per minute", map[string]string{
			"quota_metric":      "youtube.googleapis.com/default",
			"quota_limit":       "defaultPerMinutePerProject",
			"quota_unit":        "1/min/{project}",
			"quota_limit_value": "1800000",
		})
	}
	e := knownError(reason)
	if status >= http.StatusBadRequest {
		e.Code = status
	}
	return e
}

func usualReason(status int) string {
	switch {
	case status >= http.StatusInternalServerError:
		return "backendError"
	case status == http.StatusTooManyRequests:
		return "rateLimitExceeded"
	case status == http.StatusNotFound:
		return "notFound"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusUnauthorized:
		return "authError"
	}
	return "badRequest"
}

func knownError(reason string) *apiError {
	const console = "https://console.developers.google.com/apis/api/youtube"
	switch reason {
	case "quotaExceeded":
		return newError(http.StatusForbidden, "youtube.quota", reason,
			`The request cannot be completed because you have exceeded your <a `+
				`href="/youtube/v3/getting-started#quota">quota</a>.`)
	case "dailyLimitExceeded":
		url := console + "/quotas?project=" + project
		e := newError(http.StatusForbidden, "usageLimits", reason,
			"Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT). "+
				"You may monitor your quota usage and adjust limits in the API Console: "+url)
		e.Errors[0].ExtendedHelp = url
		return e
	case "rateLimitExceeded":
		return newError(http.StatusForbidden, "usageLimits", reason, "Rate Limit Exceeded")
	case "userRateLimitExceeded":
		return newError(http.StatusForbidden, "usageLimits", reason, "User Rate Limit Exceeded")
	case "keyInvalid":
		return newError(http.StatusBadRequest, "usageLimits", reason, "Bad Request")
	case "accessNotConfigured":
		url := console + ".googleapis.com/overview?project=" + project
		e := newError(http.StatusForbidden, "usageLimits", reason, "YouTube Data API v3 has not been used in project "+
			project+
			" before or it is disabled. Enable it by visiting "+url+" then retry.")
		e.Errors[0].ExtendedHelp = url
		return e
	case "forbidden":
		return newError(http.StatusForbidden, "global", reason, "Requests from referer <empty> are blocked.").
			with("PERMISSION_DENIED", "API_KEY_HTTP_REFERRER_BLOCKED", "", nil)
	case "authError":
		return newError(http.StatusUnauthorized, "global", reason, "Invalid Credentials")
	case "backendError":
		return newError(http.StatusServiceUnavailable, "global", reason, "Backend Error")
	case "notFound":
		return errNoSuchMethod()
	}
	return newError(http.StatusBadRequest, "global", reason, "Bad Request")
}
