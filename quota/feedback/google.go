package feedback

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// google is the look of the dialect of Google's APIs.
func google(a *answer) {
	if a.status < http.StatusBadRequest {
		return
	}
	e := newError(a.status, a.json)
	answer := e.classify(a.after, a.said)
	a.class, a.word, a.day = answer.Class, e.word(), answer.Class == Exhausted
	a.about = limit{bucket: answer.Bucket, max: -1, left: -1, reset: unknownReset}
	a.after, a.said = answer.RetryAfter, answer.RetryAfter > 0
}

// apiError is what can be read of an error's body. Its shape is only hoped for: every part
// may be missing, or of another type.
type apiError struct {
	status   int    // of HTTP
	code     int    // the body's own; 0: none. A 410 with a code of 503 occurs (google-api-dotnet-client issue 777)
	name     string // RESOURCE_EXHAUSTED
	reasons  []string
	messages []string            // the error's own first
	details  []string            // the reasons of its details
	metadata []map[string]string // of its details
}

func newError(status int, body any) *apiError {
	e := &apiError{status: status}
	if list, ok := body.([]any); ok && len(list) > 0 { // as streaming methods answer
		body = list[0]
	}
	fields, _ := field[map[string]any](body, "error")
	if code, ok := number(fields["code"]); ok && code >= 400 && code < 600 {
		e.code = int(code)
	}
	e.name, _ = fields["status"].(string)
	texts := func(paths ...string) (found []string) {
		for _, path := range paths {
			for _, v := range at(fields, path) {
				if text, ok := v.(string); ok && text != "" {
					found = append(found, text)
				}
			}
		}
		return found
	}
	e.reasons, e.details = texts("errors.*.reason"), texts("details.*.reason")
	e.messages = texts("message", "errors.*.message")
	for _, v := range at(fields, "details.*.metadata") {
		data := map[string]string{}
		for _, name := range []string{"quota_limit", "quota_unit", "quota_metric", "quota_limit_value"} {
			for _, value := range at(v, name) {
				data[name] = scalar(value)
			}
		}
		e.metadata = append(e.metadata, data)
	}
	return e
}

// is reports whether the status, or the body's own code, which may differ, is
// this one.
func (e *apiError) is(code int) bool { return e.status == code || e.code == code }

// has reports whether the body gives one of these reasons.
func (e *apiError) has(reasons ...string) bool {
	return slices.ContainsFunc(e.reasons, func(r string) bool { return slices.Contains(reasons, r) })
}

// says reports whether a message about a quota or limit holds these words. One
// about a permission may speak of limits too.
func (e *apiError) says(words ...string) bool {
	slow := e.is(http.StatusTooManyRequests)
	if !slow && (!e.is(http.StatusForbidden) || e.has("forbidden", "insufficientPermissions")) {
		return false
	}
	return slices.ContainsFunc(e.messages, func(message string) bool {
		message = strings.ToLower(tags.ReplaceAllString(message[:min(len(message), maxText)], ""))
		return (strings.Contains(message, "quota") || strings.Contains(message, "limit")) &&
			slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
	})
}

// word returns the upstream's word for what is wrong, or "".
func (e *apiError) word() string {
	for _, list := range [][]string{e.reasons, e.details} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}

// text returns the upstream's word for what is wrong, and its message.
func (e *apiError) text() string {
	text := e.word()
	if text == "" {
		text = httpStatus(e.status)
	}
	if len(e.messages) > 0 {
		text += ": " + e.messages[0]
	}
	return clean(text)
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
	name   string // defaultSearchListPerDayPerProject
	named  bool   // there is one
	limit  quota.Units
	said   bool // limit is what the answer says
}

// limit returns the limit that the details name, the longest of several.
func (e *apiError) limit() (found limitInfo, longest period) {
	for _, data := range e.metadata {
		name, unit := data["quota_limit"], data["quota_unit"]
		info := limitInfo{metric: data["quota_metric"], name: name, named: name != "" || unit != ""}
		if value := units(data["quota_limit_value"]); value >= 0 {
			info.limit, info.said = value, true
		}
		p := periodOf(name, unit)
		if info.said && info.limit == 0 {
			return info, p
		}
		if info.named && (!found.named || p > longest) {
			found, longest = info, p
		}
	}
	return found, longest
}

func periodOf(name, unit string) period {
	name, unit = strings.ToLower(name), strings.ToLower(unit)
	is := func(prefix string) bool { return unit == prefix || strings.HasPrefix(unit, prefix+"/") }
	switch {
	case is("1/d"), is("1/day"), strings.Contains(name, "perday"), strings.HasSuffix(name, "-1d"):
		return perDay
	case is("1/min"), is("1/minute"), strings.Contains(name, "perminute"):
		return perMinute
	}
	return unknown
}

var (
	metricName = regexp.MustCompile(`(?i)quota metric '([^']{1,100})'`)
	limitName  = regexp.MustCompile(`^default([A-Z][A-Za-z]*)Per(?:Day|Minute)`)
	capital    = regexp.MustCompile(`[A-Z]`)
)

// bucket returns the metric's short name, from the details, where a limit is
// named after it (defaultSearchListPerDayPerProject is search_list's), or else
// from the message, which has only a name for people.
func (l limitInfo) bucket(e *apiError) string {
	metric := l.metric[strings.LastIndexByte(l.metric, '/')+1:]
	if found := limitName.FindStringSubmatch(l.name); metric == "" && found != nil {
		metric = strings.TrimPrefix(capital.ReplaceAllString(found[1], "_$0"), "_")
	}
	for _, message := range e.messages {
		found := metricName.FindStringSubmatch(message)
		if metric != "" || found == nil {
			continue
		}
		switch metric = found[1]; strings.ToLower(metric) {
		case "queries":
			metric = defaultBucket
		case "search queries":
			metric = "search_list"
		case "video uploads":
			metric = "video_insert"
		}
	}
	if metric == "" {
		return defaultBucket
	}
	return bucketName(metric)
}
