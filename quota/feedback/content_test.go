package feedback_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// TestContentStopsNothing: a successful answer that has content stops nothing,
// whatever words stand in it, and neither does what is not found. An error in a
// successful answer does.
func TestContentStopsNothing(t *testing.T) {
	read, err := feedback.New("generic", feedback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		body   string
		stops  bool
	}{
		{200, `{"id":7,"status":"error","message":"job failed: rate limit exceeded at vendor","retry_after":86400}`,
			false},
		{200, `{"code":429,"count":17}`, false},
		{200, `{"errors":[{"message":"Item 4 skipped: too many requests to vendor"}],"imported":96}`, false},
		{404, `{"message":"article How we handle too many requests not found"}`, false},
		{200, `{"code":429,"message":"too many requests"}`, true},
		{200, `{"data":null,"errors":[{"message":"rate limit exceeded"}]}`, true},
		{200, `{"success":false,"error":{"type":"usage_limit","info":"rate limit reached"}}`, true},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(c.body)), ContentLength: int64(len(c.body))}
		if v := read(quota.Call{Account: "a", Method: "m", Units: 1}, resp); v.For > 0 != c.stops {
			t.Errorf("%d %s: %s; want a stop: %t", c.status, c.body, v.For, c.stops)
		}
	}
}
