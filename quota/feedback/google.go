package feedback

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// google reads an error of one of Google's APIs.
func google(res *response) {
	if res.status < http.StatusBadRequest {
		return
	}
	e := parseError(res.status, res.json)
	if !res.hasWait {
		res.wait, res.hasWait = e.retryDelay()
	}
	c := e.classify(res.wait, res.hasWait)
	res.class, res.word = c.Class, e.word()
	res.daily = c.Class == Exhausted
	res.about = unknownLimit(c.Bucket)
}

// apiError is what an error's body says. Every part may be missing.
type apiError struct {
	status   int    // of HTTP
	code     int    // in the body, or 0; a 410 with a code of 503 occurs (google-api-dotnet-client issue 777)
	name     string // RESOURCE_EXHAUSTED
	reasons  []string
	messages []string            // the error's own first
	details  []string            // the reasons in its details
	metadata []map[string]string // of its ErrorInfo and QuotaFailure, under ErrorInfo's names
	delays   []string            // in its RetryInfo
}

// parseError reads the parts of a decoded body that have the expected types.
func parseError(status int, body any) *apiError {
	e := &apiError{status: status}
	if list, ok := body.([]any); ok && len(list) > 0 { // streaming methods send a list
		body = list[0]
	}
	fields, _ := field[map[string]any](body, "error")
	if code, ok := number(fields["code"]); ok && code >= 400 && code < 600 {
		e.code = int(code)
	}
	e.name, _ = fields["status"].(string)
	e.reasons, e.details = texts(fields, "errors.*.reason"), texts(fields, "details.*.reason")
	e.messages = texts(fields, "message", "errors.*.message")
	for _, v := range lookup(fields, "details.*.metadata") {
		e.addMetadata(v, "quota_limit", "quota_unit", "quota_metric", "quota_limit_value")
	}
	for _, v := range lookup(fields, "details.*.violations.*") {
		e.addMetadata(v, "quotaId", "", "quotaMetric", "quotaValue")
	}
	e.delays = texts(fields, "details.*.retryDelay")
	return e
}

// addMetadata adds the metadata of one limit, given the names of its fields.
func (e *apiError) addMetadata(v any, limit, unit, metric, value string) {
	data := map[string]string{}
	for name, field := range map[string]string{"quota_limit": limit, "quota_unit": unit, "quota_metric": metric, "quota_limit_value": value} {
		if object, ok := v.(map[string]any); ok {
			data[name] = scalar(object[field])
		}
	}
	e.metadata = append(e.metadata, data)
}

// retryDelay returns how long the RetryInfo asks to wait, such as "37s", at
// most MaxRetryAfter.
func (e *apiError) retryDelay() (wait time.Duration, ok bool) {
	for _, text := range e.delays {
		if wait := duration.parse(text, time.Time{}); wait >= 0 {
			return min(wait, MaxRetryAfter), true
		}
	}
	return 0, false
}

// is reports whether the HTTP status or the body's code is code; they may
// differ.
func (e *apiError) is(code int) bool { return e.status == code || e.code == code }

// has reports whether the body has one of these reasons.
func (e *apiError) has(reasons ...string) bool {
	return slices.ContainsFunc(e.reasons, func(r string) bool { return slices.Contains(reasons, r) })
}

// limitMentions reports whether a message about a quota or a limit contains one
// of these words. It is false for an error about permissions, which may mention
// limits.
func (e *apiError) limitMentions(words ...string) bool {
	permission := e.has("forbidden", "insufficientPermissions")
	if !e.is(http.StatusTooManyRequests) && (permission || !e.is(http.StatusForbidden)) {
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
	reasons := slices.Concat(e.reasons, e.details)
	if len(reasons) == 0 {
		return ""
	}
	return reasons[0]
}

// text returns the upstream's word for what is wrong, or else the status,
// followed by its message.
func (e *apiError) text() string {
	text := e.word()
	if text == "" {
		text = strings.TrimSpace(fmt.Sprintf("%d %s", e.status, http.StatusText(e.status)))
	}
	if len(e.messages) > 0 {
		text += ": " + e.messages[0]
	}
	return clean(text)
}

// rate is the window that a limit counts over.
type rate uint8

const (
	unknownRate rate = iota
	perMinute
	perDay
)

// limitInfo is what the details say about a limit.
type limitInfo struct {
	metric   string // youtube.googleapis.com/search_list
	name     string // defaultSearchListPerDayPerProject
	rate     rate
	named    bool        // it has a name or a unit
	limit    quota.Units // if hasLimit
	hasLimit bool
}

// limitInfo returns the limit that the details name: a limit of 0 if there is
// one, else the one with the longest period.
func (e *apiError) limitInfo() (found limitInfo) {
	for _, data := range e.metadata {
		name, unit := data["quota_limit"], data["quota_unit"]
		info := limitInfo{metric: data["quota_metric"], name: name, rate: rateOf(name, unit), named: name != "" || unit != ""}
		if value := units(data["quota_limit_value"]); value >= 0 {
			info.limit, info.hasLimit = value, true
		}
		if info.hasLimit && info.limit == 0 {
			return info
		}
		if info.named && (!found.named || info.rate > found.rate) {
			found = info
		}
	}
	return found
}

func rateOf(name, unit string) rate {
	name, unit = strings.ToLower(name), strings.ToLower(unit)
	is := func(prefix string) bool { return unit == prefix || strings.HasPrefix(unit, prefix+"/") }
	switch {
	case is("1/d"), is("1/day"), strings.Contains(name, "perday"), strings.HasSuffix(name, "-1d"):
		return perDay
	case is("1/min"), is("1/minute"), strings.Contains(name, "perminute"):
		return perMinute
	}
	return unknownRate
}

var (
	metricName = regexp.MustCompile(`(?i)quota metric '([^']{1,100})'`)
	limitName  = regexp.MustCompile(`^default([A-Z][A-Za-z]*)Per(?:Day|Minute)`)
	capital    = regexp.MustCompile(`[A-Z]`)
)

// bucket returns the metric's short name. It comes from the details, where the
// name of a limit contains it (defaultSearchListPerDayPerProject is that of
// search_list), or else from the message, which has only a display name.
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
