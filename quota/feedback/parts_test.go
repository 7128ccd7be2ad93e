package feedback_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// partsOf returns a multipart/mixed body whose parts are these responses.
func partsOf(responses ...string) string {
	var b strings.Builder
	for _, one := range responses {
		fmt.Fprintf(&b, "--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 %s\r\n", one)
	}
	return b.String() + "--b--\r\n"
}

// TestBatchIsReadPartByPart: the worst part of an answer to a batch decides,
// and the number of its parts is what the batch cost, if all are there.
func TestBatchIsReadPartByPart(t *testing.T) {
	fine := "200 OK\r\nContent-Type: application/json\r\n\r\n{}"
	fast := "429 Too Many Requests\r\nRetry-After: 7\r\n\r\n"
	slower := "429 Too Many Requests\r\nRetry-After: 30\r\n\r\n"
	cost := func(units quota.Units) quota.Verdict { return quota.Verdict{Settled: true, Units: units} }
	wait := func(v quota.Verdict, length time.Duration) quota.Verdict {
		v.For, v.Reason = length, "429 Too Many Requests"
		return v
	}
	for name, c := range map[string]struct {
		body string
		want quota.Verdict
	}{
		"all is fine":      {partsOf(fine, fine), cost(10)},
		"two are too fast": {partsOf(fine, fast, slower), wait(cost(15), 30*time.Second)},
		"cut":              {strings.TrimSuffix(partsOf(fast), "--b--\r\n"), wait(quota.Verdict{}, 7*time.Second)},
		"not answers":      {"--b\r\n\r\nhello\r\n--b--\r\n", quota.Verdict{}},
		"no parts":         {"--b--\r\n", quota.Verdict{}},
		"one within": {
			partsOf("200 OK\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n", fine), quota.Verdict{},
		},
		"a batch within": {partsOf("200 OK\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n"),
			quota.Verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			perCall := func(quota.Call) quota.Units { return 5 }
			read := reader(t, "generic", feedback.Options{PerCall: perCall, Now: clock(noon)})
			resp := response(http.StatusOK, dated+"Content-Type: multipart/mixed; boundary=b", c.body)
			if got := read(call, resp); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != c.body {
				t.Errorf("the body was changed (%v)", err)
			}
		})
	}
}
