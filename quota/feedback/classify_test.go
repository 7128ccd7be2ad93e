package feedback_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/quota/feedback"
)

// body writes an error in Google's shape.
func body(code int, message, reason string, metadata ...string) string {
	e := map[string]any{"code": code, "message": message,
		"errors": []any{map[string]any{"message": message, "domain": "global", "reason": reason}}}
	if len(metadata) > 0 {
		data := map[string]any{"service": "youtube.googleapis.com", "consumer": "projects/1"}
		for _, pair := range metadata {
			name, value, _ := strings.Cut(pair, "=")
			data[name] = value
		}
		e["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.Help"},
			map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED",
				"metadata": data}}
	}
	text, err := json.Marshal(map[string]any{"error": e})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func spentText(metric, period string) string {
	return fmt.Sprintf("Quota exceeded for quota metric '%s' and limit '%s per %s' of service "+
		"'youtube.googleapis.com' for consumer 'project_number:1'.", metric, metric, period)
}

// violated returns an error with a QuotaFailure and a RetryInfo, as
// generativelanguage.googleapis.com sends them.
func violated(id, limit string) string {
	return fmt.Sprintf(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan.","details":[
		{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_requests","quotaId":%q,"quotaValue":%q}]},
		{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`, id, limit)
}

const (
	spentHTML = `The request cannot be completed because you have exceeded your <a ` +
		`href="/youtube/v3/getting-started#quota">quota</a>.`
	searchDay = "quota_limit=defaultSearchListPerDayPerProject"
	search    = "quota_metric=youtube.googleapis.com/search_list"
)

// The shapes come from public reports; TestRecordedBodiesAreClassified reads
// the originals.
var classified = []struct {
	name   string
	status int
	body   string
	class  feedback.Class
	bucket string
	says   string
}{
	{"an answer", 200, body(403, spentHTML, "quotaExceeded"), feedback.Fine, "", ""},
	{"not modified", 304, "", feedback.Fine, "", ""},
	{"the day, old shape", 403, body(403, spentHTML, "quotaExceeded"), feedback.Exhausted, "default",
		"quotaExceeded: The request cannot be completed because you have exceeded your quota."},
	{"the day, older word", 403, body(403, "Daily Limit Exceeded", "dailyLimitExceeded"), feedback.Exhausted, "default",
		"dailyLimitExceeded"},
	{"the day, as a 429 with rateLimitExceeded", 429, body(429, spentText("Search Queries", "day"), "rateLimitExceeded",
		searchDay, "quota_unit=1/d/{project}", search, "quota_limit_value=100"), feedback.Exhausted, "search_list",
		"rateLimitExceeded"},
	{"the day, by its limit's name alone", 429, body(429, "x", "rateLimitExceeded", searchDay, search),
		feedback.Exhausted, "search_list", ""},
	{"the day, by its unit alone", 429, body(429, "x", "rateLimitExceeded", "quota_unit=1/d/{project}"),
		feedback.Exhausted, "default", ""},
	{"the day, by its message alone", 429, body(429, spentText("Video Uploads", "day"), "rateLimitExceeded"),
		feedback.Exhausted, "video_insert", ""},
	{"the day, a metric not known", 403, body(403, spentText("Video Batch Get Stats", "day"), "x"), feedback.Exhausted,
		"video_batch_get_stats", ""},
	{"the details outrank the reason", 403,
		body(403, spentHTML, "quotaExceeded", "quota_limit=defaultPerMinutePerProject"), feedback.SlowDown, "default",
		""},
	{"the details outrank the status", 503, body(503, "x", "backendError", searchDay), feedback.Exhausted,
		"search_list", ""},
	{"the minute", 429, body(429, spentText("Queries", "minute"), "rateLimitExceeded", "quota_unit=1/min/{project}",
		"quota_metric=youtube.googleapis.com/default", "quota_limit_value=1800000"), feedback.SlowDown, "default", ""},
	{"the minute, a 403 by its message", 403, body(403, spentText("Queries", "minute"), "x"), feedback.SlowDown,
		"default", ""},
	{"the minute, spelled out", 403, body(403, spentHTML, "quotaExceeded", "quota_unit=1/minute/{project}"),
		feedback.SlowDown, "default", ""},
	{"the minute, by its short unit", 403, body(403, spentHTML, "quotaExceeded", "quota_unit=1/min"), feedback.SlowDown,
		"default", ""},
	{"the day, spelled out", 403, body(403, "x", "rateLimitExceeded", "quota_unit=1/day/{project}"), feedback.Exhausted,
		"default", ""},
	{"a unit that is not known", 403, body(403, spentHTML, "quotaExceeded", "quota_unit=1/mo/{project}"),
		feedback.Exhausted, "default", ""},
	{"the minute and the day", 429, `{"error":{"details":[{"metadata":{"quota_unit":"1/min/{project}","quota_metric":"x/default"}},{"metadata":{"quota_unit":"1/d/{project}",
			"quota_metric":"youtube.googleapis.com/search_list"}},{"metadata":{"quota_limit":"xPerMinute"}}]}}`, feedback.Exhausted, "search_list", ""},
	{"per day, but of no quota", 403, body(403, "Reports are made once per day.", "forbidden"), feedback.Permanent, "",
		""},
	{"an hour", 403, body(403, "x", "y", "quota_unit=1/h/{project}", search), feedback.SlowDown, "search_list", ""},
	{"too fast, old shape", 403, body(403, "Rate Limit Exceeded", "rateLimitExceeded"), feedback.SlowDown, "default",
		""},
	{"too fast, one user", 403, body(403, "User Rate Limit Exceeded", "userRateLimitExceeded"), feedback.SlowDown,
		"default", ""},
	{"429 without a body", 429, "", feedback.SlowDown, "default", "429 Too Many Requests"},
	{"a limit of 0", 429, body(429, spentText("Video Uploads", "day"), "rateLimitExceeded", "quota_limit=x",
		"quota_unit=1/d/{project}",
		"quota_metric=youtube.googleapis.com/video_insert", "quota_limit_value=0"), feedback.Never, "video_insert", ""},
	{"a limit of 0, as a number", 403,
		`{"error":{"details":[{"metadata":{"quota_limit":"xPerDay","quota_limit_value":0}}]}}`, feedback.Never,
		"default", ""},
	{"only a limit of 0", 429, body(429, spentText("Search Queries", "day"), "rateLimitExceeded",
		"quota_limit_value=0"), feedback.Never, "search_list", ""},
	{"a limit that is not 0", 429, body(429, "x", "rateLimitExceeded", searchDay, "quota_limit_value=-0"),
		feedback.Exhausted, "search_list", ""},
	{"a limit's name says whose it is", 429, body(429, "x", "rateLimitExceeded", "quota_limit=defaultPerDayPerProject"),
		feedback.Exhausted, "default", ""},
	{"a limit that is named otherwise", 429,
		body(429, "x", "rateLimitExceeded", "quota_limit=VideoUploadsPerDayPerProject"), feedback.Exhausted, "default",
		""},
	{"the day, as 1d", 403, body(403,
		"Quota exceeded for quota group 'AnalyticsDefaultGroup' and limit 'CLIENT_PROJECT-1d' of service 'x'",
		"rateLimitExceeded"), feedback.Exhausted, "default", ""},
	{"the day, as 1d in the details", 429, body(429, "x", "rateLimitExceeded", "quota_limit=CLIENT_PROJECT-1d"),
		feedback.Exhausted, "default", ""},
	{"the day, in capitals", 403, body(403, strings.ToUpper(spentText("Search Queries", "day")), "x"),
		feedback.Exhausted, "search_list", ""},
	{"too fast, by its details alone", 403, `{"error":{"code":403,"details":[{"reason":"RATE_LIMIT_EXCEEDED"}]}}`,
		feedback.SlowDown, "default", ""},
	{"a permission that speaks of a limit", 403, body(403, "You have reached the daily limit of comments: 50 per day",
		"forbidden"), feedback.Permanent, "", ""},
	{"the day, by its old message alone", 403,
		`{"error":{"code":403,"message":"The request cannot be completed because you have exceeded your <a ` +
			`href=\"/x\">quota</a>."}}`, feedback.Exhausted, "default", ""},
	{"the day, by its older message alone", 403,
		`{"error":{"message":"Daily Limit Exceeded. The quota will be reset at midnight Pacific Time (PT)."}}`,
		feedback.Exhausted, "default", ""},
	{"no key, in a day's words", 403,
		body(403, "Daily Limit for Unauthenticated Use Exceeded. Continued use requires signup.",
			"dailyLimitExceededUnreg"), feedback.Permanent, "", ""},
	{"the minute, as a quota", 429, body(429, "You have exceeded your quota of 100 requests per minute", "x"),
		feedback.SlowDown, "default", ""},
	{"the minute, as a quota that is exceeded", 403,
		body(403, "Quota exceeded for queries per minute", "quotaExceeded"), feedback.SlowDown, "default", ""},
	{"the day, beside the minute", 403,
		body(403, "You have exceeded your quota of 100 requests per minute or 1000 per day", "x"), feedback.Exhausted,
		"default", ""},
	{"100 seconds, as a quota", 403, body(403, "You have exceeded your quota of 100 requests per user per 100 seconds",
		"x"), feedback.SlowDown, "default", ""},
	{"the day, by its violation", 429, violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "50"),
		feedback.Exhausted, "generate_requests", ""},
	{"the minute, by its violation", 429, violated("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "50"),
		feedback.SlowDown, "generate_requests", ""},
	{"a limit of 0, by its violation", 429, violated("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "0"),
		feedback.Never, "generate_requests", ""},
	{"100 seconds", 403, body(403, "x", "y", "quota_limit=ReadsPer100SecondsPerProject"), feedback.SlowDown, "default",
		""},
	{"a status alone", 403, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, feedback.SlowDown, "default", ""},
	{"playlists.insert, 2026-10-08", 429,
		`{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).",` +
			`"status":"RESOURCE_EXHAUSTED"}}`, feedback.SlowDown, "default", ""},
	{"a 403 whose body is a 429", 403, body(429, "x", "y"), feedback.SlowDown, "default", ""},
	{"a key for other services", 403,
		`{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"reason":"API_KEY_SERVICE_BLOCKED",` +
			`"metadata":{"service":"youtube.googleapis.com"}}]}}`, feedback.Permanent, "", ""},
	{
		"details that are not a list", 429,
		`{"error":{"errors":{"reason":"quotaExceeded"},"details":{"metadata":{"quota_limit":"xPerDay"}}}}`,
		feedback.Exhausted, "default", "",
	},
	{"two bodies", 403, body(403, spentHTML, "quotaExceeded") + "{}", feedback.Permanent, "", ""},
	{"a bad key", 400, body(400, "API key not valid.", "badRequest", "x=y"), feedback.Permanent, "",
		"badRequest: API key not valid."},
	{"a bad key, old shape", 400, body(400, "Bad Request", "keyInvalid"), feedback.Permanent, "", ""},
	{"not permitted", 403, body(403, "Requests from referer <empty> are blocked.", "forbidden"), feedback.Permanent, "",
		""},
	{"not enabled", 403, body(403, "Access Not Configured. Enable it, then retry.", "accessNotConfigured"),
		feedback.Permanent, "", ""},
	{"a permission in an outage's words", 403, body(403, "x", "SERVICE_UNAVAILABLE"), feedback.Permanent, "", ""},
	{"a channel's own limit", 400,
		body(400, "The user has exceeded the number of videos they may upload per day; limit", "uploadLimitExceeded"),
		feedback.Permanent, "", ""},
	{"an outage", 503, body(503, "Backend Error", "backendError"), feedback.Transient, "", "backendError"},
	{"a 410 that is an outage", 410, body(503, "Backend Error", "backendError"), feedback.Transient, "", ""},
	{"a 502 of a proxy", 502, "<html><title>quotaExceeded per day</title></html>", feedback.Transient, "",
		"502 Bad Gateway"},
	{"a 403 of a proxy", 403, "<html>quotaExceeded</html>", feedback.Permanent, "", "403 Forbidden"},
	{"cut short", 429, body(429, spentText("Search Queries", "day"), "x")[:90], feedback.SlowDown, "default", ""},
	{"an error that is a word", 400, `{"error":"invalid_grant"}`, feedback.Permanent, "", ""},
	{"in a list", 403, "[" + body(403, spentHTML, "quotaExceeded") + "]", feedback.Exhausted, "default", ""},
	{
		"other types", 403,
		`{"error":{"code":"429","message":7,"errors":[1,null,{"reason":["quotaExceeded"]}],"details":{"metadata":1}}}`,
		feedback.SlowDown, "default", "",
	},
	{"other types deeper", 429, `{"error":{"details":[null,7,{"metadata":{"quota_limit":7,"quota_unit":null}}]}}`,
		feedback.SlowDown, "default", ""},
	{"null", 500, "null", feedback.Transient, "", ""},
	{"deep", 403, strings.Repeat(`{"error":`, 6000), feedback.Permanent, "", ""},
	{"10 MB", 429, `{"error":{"message":"` + strings.Repeat("per day quota ", 750_000) + `"}}`, feedback.Exhausted,
		"default", "429 Too Many Requests"},
	{"a message from outside", 429,
		body(429, "\x1b[31m<b>&lt;i&gt;red\u202e\n AIzaSyB-secret_0 https://x/?key=hush&q=1 "+strings.Repeat("é", 300),
			"r"),
		feedback.SlowDown, "default", "r: [31mred REDACTED https://x/?key=REDACTED&q=1 éé"},
}

// TestNoKeyInAMessageIsShown: what looks like a key is not shown, and the name
// of a metric is.
func TestNoKeyInAMessageIsShown(t *testing.T) {
	const freeTier = "Quota exceeded for metric: " +
		"generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 20"
	for text, want := range map[string]string{
		"bad Bearer tok999, retry":             "bad REDACTED, retry",
		"bad api_key abc123secret, retry":      "bad REDACTED, retry",
		"bad apikey ABCDEF":                    "bad REDACTED",
		"bad API-Key: abc":                     "bad API-Key: REDACTED",
		"bad key=abcdef":                       "bad key=REDACTED",
		"bad Key='abcdef'":                     "bad Key='REDACTED'",
		"bad d41d8cd98f00b204e9800998ecf8427e": "bad REDACTED",
		"bad eyJhbGciOi.eyJzdWIiOiIx.c2ln":     "bad REDACTED",
		"bad xoxb-" + "123456789012-abcdefgh":  "bad REDACTED",
		"bad pk_live_51Habcdef":                "bad REDACTED",
		"bad SG.abcdefgh.ijkl-qrstuv":          "bad REDACTED",
		"bad AKIAIOSFODNN7EXAMPLE":             "bad REDACTED",
		"bad Basic dXNlcjpwYXNz":               "bad REDACTED",
		"the Basic plan allows 5":              "the Basic plan allows 5",
		"bad https://me:pass@x.com/y":          "bad https:REDACTEDx.com/y",
		"bad session_id=abcdef":                "bad session_id=REDACTED",
		"Bearer token expired":                 "Bearer token expired",
		"Please pass a valid API key.":         "Please pass a valid API key.",
		freeTier:                               freeTier,
	} {
		if got := feedback.Classify("google", 429, nil, []byte(body(429, text, "r"))).Reason; got != "r: "+want {
			t.Errorf("%q: %q; want %q", text, got, "r: "+want)
		}
	}
}

func TestEveryClassHasAName(t *testing.T) {
	for class, want := range map[feedback.Class]string{feedback.Fine: "fine", feedback.Never: "never",
		feedback.Permanent: "permanent", feedback.Permanent + 1: "class 6", 255: "class 255"} {
		if got := class.String(); got != want {
			t.Errorf("class %d is %q; want %q", class, got, want)
		}
	}
}

func TestResponsesAreClassified(t *testing.T) {
	for _, test := range classified {
		t.Run(test.name, func(t *testing.T) {
			got := feedback.Classify("google", test.status, nil, []byte(test.body))
			if got.Class != test.class || got.Bucket != test.bucket || !strings.HasPrefix(got.Reason, test.says) {
				t.Errorf("got %s of %q, %q; want %s of %q, %q", got.Class, got.Bucket, got.Reason, test.class,
					test.bucket, test.says)
			}
			check(t, test.status, got)
		})
	}
}

// check verifies what holds for every Classification.
func check(t *testing.T, status int, got feedback.Classification) {
	t.Helper()
	slow := got.Class == feedback.SlowDown
	switch {
	case (got.Class == feedback.Fine) != (status < 400), got.Class > feedback.Permanent:
		t.Errorf("status %d is %s", status, got.Class)
	case got.RetryAfter < 0, got.RetryAfter > feedback.MaxRetryAfter, slow && got.RetryAfter < time.Second:
		t.Errorf("%s for %s", got.Class, got.RetryAfter)
	case len(got.Reason) > 200, !utf8.ValidString(got.Reason), strings.ContainsAny(got.Reason, "\x1b\n\r\u202e"):
		t.Errorf("reason %q", got.Reason)
	case len(got.Bucket) > 100, strings.ContainsAny(got.Bucket, " /'\n"):
		t.Errorf("a limit of %q", got.Bucket)
	}
}

// TestRecordedBodiesAreClassified reads the bodies in public reports, if they
// are present.
func TestRecordedBodiesAreClassified(t *testing.T) {
	file, err := os.Open("../../../shared/data/errors.ndjson")
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("no recorded bodies here; TestResponsesAreClassified has the same shapes")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	classes := map[string]feedback.Class{"daily_exhausted": feedback.Exhausted, "rate_limited": feedback.SlowDown,
		"transient": feedback.Transient,
		"auth":      feedback.Permanent, "not_found": feedback.Permanent, "bad_request": feedback.Permanent}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var one struct {
			ID     string
			Status int `json:"http_status"`
			Body   string
			Class  string `json:"expected_class"`
			Bucket string
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		want, known := classes[one.Class]
		got := feedback.Classify("google", one.Status, nil, []byte(one.Body))
		if !known || got.Class != want || want == feedback.Exhausted && got.Bucket != one.Bucket {
			t.Errorf("%s: %s of %q; want %s of %q", one.ID, got.Class, got.Bucket, one.Class, one.Bucket)
		}
		check(t, one.Status, got)
	}
}

const date = "Fri, 20 Nov 2026 12:00:00 GMT"

func TestRetryAfterIsReadInEachForm(t *testing.T) {
	none := time.Duration(-1)
	tests := []struct {
		values []string
		want   time.Duration
	}{
		{nil, none}, {[]string{""}, none}, {[]string{"0"}, 0}, {[]string{" 120\t"}, 2 * time.Minute},
		{[]string{"007"}, 7 * time.Second},
		{[]string{"86400"}, 24 * time.Hour}, {[]string{"100000"}, 24 * time.Hour}, {[]string{"1.5"}, 2 * time.Second},
		{[]string{"2.0"}, 2 * time.Second}, {[]string{"0.01"}, time.Second},
		{[]string{"-1"}, none}, {[]string{"+1"}, none}, {[]string{"1."}, none}, {[]string{".5"}, none},
		{[]string{"1.5.0"}, none}, {[]string{"1e3"}, none}, {[]string{"0x10"}, none},
		{[]string{"NaN"}, none}, {[]string{"1_0"}, none}, {[]string{"٣"}, none}, {[]string{"60, 120"}, none},
		{[]string{"60", "120"}, none},
		{[]string{"9223372037"}, 24 * time.Hour}, {[]string{"9223372036854775808"}, 24 * time.Hour},
		{[]string{"9223372036854775807.5"}, 24 * time.Hour},
		{[]string{strings.Repeat("9", 4096)}, none}, {[]string{strings.Repeat("0", 4096)}, none},
		{[]string{"Fri, 20 Nov 2026 12:01:30 GMT"}, 90 * time.Second},
		{[]string{"Friday, 20-Nov-26 12:01:30 GMT"}, 90 * time.Second},
		{[]string{"Fri Nov 20 12:01:30 2026"}, 90 * time.Second}, {[]string{"1m30s"}, 90 * time.Second},
		{[]string{"Fri, 20 Nov 2026 11:00:00 GMT"}, 0}, {[]string{"Sun, 22 Nov 2026 12:00:00 GMT"}, 24 * time.Hour},
		{[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, 24 * time.Hour},
		{[]string{"2026-11-20T12:01:30Z"}, 90 * time.Second}, {[]string{"1795176090"}, 90 * time.Second},
	}
	for _, test := range tests {
		header := http.Header{"Date": {date}, "Retry-After": test.values}
		want, ok := max(test.want, 0), test.want != none
		wait := time.Minute // of a 429 that names no limit
		if ok {
			wait = max(want, time.Second)
		}
		if got := feedback.Classify("google", 429, header, nil).RetryAfter; got != wait {
			t.Errorf("%.40q: a 429 waits %s; want %s", test.values, got, wait)
		}
	}
	hour := http.Header{"Retry-After": {"3600"}}
	minute := []byte(violated("RequestsPerMinute", "50"))
	if got := feedback.Classify("google", 429, nil, minute).RetryAfter; got != 37*time.Second {
		t.Errorf("a RetryInfo of 37 s: %s", got)
	}
	for text, want := range map[string]time.Duration{
		violated("RequestsPerMinute", "50"):                                       time.Hour,
		body(429, "You have exceeded your quota of 100 requests per minute", "x"): time.Hour,
		body(429, spentText("Queries", "minute"), "rateLimitExceeded"):            time.Hour,
		body(429, "Resource has been exhausted", "rateLimitExceeded"):             time.Hour,
		body(503, "Backend Error", "backendError"):                                time.Hour,
		body(403, spentHTML, "quotaExceeded"):                                     0,
	} {
		status := 429
		if strings.Contains(text, "Backend") {
			status = 503
		}
		if got := feedback.Classify("google", status, hour, []byte(text)).RetryAfter; got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(403, "60", []byte(body(403, spentHTML, "quotaExceeded")))
	f.Add(429, "Fri, 20 Nov 2026 12:01:30 GMT",
		[]byte(body(429, spentText("Search Queries", "day"), "rateLimitExceeded", searchDay, search,
			"quota_limit_value=100")))
	f.Add(410, "1e9", []byte(body(503, "&lt;b&gt;", "backendError")))
	f.Add(500, "", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, after string, text []byte) {
		before := bytes.Clone(text)
		check(t, status, feedback.Classify("google", status, http.Header{"Date": {date}, "Retry-After": {after}}, text))
		if !bytes.Equal(before, text) {
			t.Error("the body was changed")
		}
	})
}
