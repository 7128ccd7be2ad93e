package feedback_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota/feedback"
)

func TestZZClassify(t *testing.T) {
	for i, c := range []struct {
		st   int
		body string
	}{
		{403, `{"error":{"code":403,"message":"Quota exceeded for quota group 'AnalyticsDefaultGroup' and limit 'CLIENT_PROJECT-1d' of service 'x'","status":"RESOURCE_EXHAUSTED"}}`},
		{429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"YoutubeCLIENT_PROJECT-1d"}}]}}`},
		{403, `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"Rate exceeded","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","domain":"googleapis.com","metadata":{"service":"x"}}]}}`},
		{429, `{"error":{"code":429,"details":[{"metadata":{"quota_limit":"VideoUploadsPerDayPerProject","quota_limit_value":"6"}}]}}`},
		{403, `{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service 'youtube.googleapis.com' for consumer 'project_number:1'.","errors":[{"reason":"rateLimitExceeded"}]}}`},
		{403, `{"error":{"code":403,"message":"QUOTA EXCEEDED FOR QUOTA METRIC 'Search Queries' AND LIMIT 'Search Queries PER DAY'","errors":[{"reason":"rateLimitExceeded"}]}}`},
		{403, `{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded","message":"Daily Limit Exceeded"}],"code":403,"message":"Daily Limit Exceeded"}}`},
		{403, `{"error":{"errors":[{"domain":"usageLimits","reason":"ipRefererBlocked","message":"There is a per-IP or per-Referer restriction configured on your API key and the request does not match these restrictions."}],"code":403}}`},
		{403, `{"error":{"errors":[{"domain":"youtube.quota","reason":"forbidden"}],"code":403,"message":"Daily limit of your permissions per day"}}`},
		{403, `{"error":{"code":403,"message":"The caller does not have permission","status":"PERMISSION_DENIED"}}`},
		{429, `{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED","errors":[{"reason":"rateLimitExceeded","domain":"global"}]}}`},
		{403, `{"error":{"errors":[{"reason":"quotaExceeded"}],"code":403,"details":[{"reason":"API_KEY_SERVICE_BLOCKED"}]}}`},
		{429, `{"error":{"details":[{"metadata":{"quota_unit":"1/min/{project}/{user}","quota_limit_value":"0"}}]}}`},
		{429, `{"error":{"details":[{"metadata":{"quota_unit":"1/d/{project}","quota_limit_value":"00"}}]}}`},
		{429, `{"error":{"details":[{"metadata":{"quota_unit":"1/d/{project}","quota_limit_value":"0.0"}}]}}`},
		{403, `{"error":{"code":403,"message":"Your project exceeded quota for 'Search Queries' today"}}`},
		{403, `{"error":{"code":403,"message":"Permission denied: Consumer has been suspended. rate limit","status":"PERMISSION_DENIED","details":[{"reason":"CONSUMER_SUSPENDED"}]}}`},
		{403, `{"error":{"code":403,"message":"x","errors":[{"reason":"concurrentLimitExceeded"}]}}`},
		{403, `{"error":{"code":403,"message":"x","errors":[{"reason":"forbidden"},{"reason":"quotaExceeded"}]}}`},
		{429, "\xef\xbb\xbf" + `{"error":{"errors":[{"reason":"quotaExceeded"}],"code":403}}`},
		{403, `)]}'` + "\n" + `{"error":{"errors":[{"reason":"quotaExceeded"}],"code":403}}`},
	} {
		a := feedback.Classify(c.st, nil, []byte(c.body))
		fmt.Printf("%2d %d %-10s %-12s lim=%d %v %s\n", i, c.st, a.Class, a.Bucket, a.Limit, a.RetryAfter, a.Reason)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(body(403, spentHTML, "quotaExceeded")))
	z.Close()
	r := response(403, "Content-Encoding: gzip", b.String())
	fmt.Printf("gzip: %+v\n", reader(t, "google", feedback.Options{Now: clock(noon)})(call, r))
	for _, h := range []string{"X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + epoch(30*time.Minute)} {
		fmt.Printf("401: %+v\n", reader(t, "github", feedback.Options{Now: clock(noon)})(call, response(401, dated+h, `{"message":"Bad credentials"}`)))
		fmt.Printf("404: %+v\n", reader(t, "github", feedback.Options{Now: clock(noon)})(call, response(404, dated+h, `{"message":"Not Found"}`)))
		fmt.Printf("403: %+v\n", reader(t, "github", feedback.Options{Now: clock(noon)})(call, response(403, dated+h, `{"message":"Resource not accessible by integration"}`)))
	}
	_ = http.StatusOK
}
