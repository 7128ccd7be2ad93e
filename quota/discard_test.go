package quota_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestARetryUsesTheSameConnection: the answer that is not returned is read and
// closed, so that its retry uses the same connection.
func TestARetryUsesTheSameConnection(t *testing.T) {
	var hits, connections atomic.Int32
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if hits.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, "an answer")
	}))
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &quota.Transport{Guard: newGuard(t, nil, budget("all", 10, time.Hour)),
		Base: base, MaxWait: time.Minute, Retries: 1,
		Price: func(*http.Request) (quota.Call, error) { return call("m", 1), nil },
		Feedback: func(_ quota.Call, resp *http.Response) quota.Verdict {
			return quota.Verdict{Transient: resp.StatusCode == http.StatusServiceUnavailable, After: time.Microsecond}
		}}}
	resp, err := client.Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); string(text) != "an answer" || err != nil || hits.Load() != 2 ||
		connections.Load() != 1 {
		t.Errorf("%q, %v after %d hits on %d connections; want the second answer on the first connection", text, err,
			hits.Load(), connections.Load())
	}
}
