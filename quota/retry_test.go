package quota_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestTransportRetriesTransientAnswers lets an upstream answer 503 a number of
// times before it recovers.
func TestTransportRetriesTransientAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		verb    string
		body    string
		broken  int32
		limit   quota.Units
		retries int
		maxWait time.Duration
		status  int
		hits    int32
	}{
		{"recovers", "GET", "", 2, 1000, 2, time.Minute, 200, 3},
		{"stays broken", "GET", "", 9, 1000, 2, time.Minute, 503, 3},
		{"off by default", "GET", "", 1, 1000, 0, time.Minute, 503, 1},
		{"never a POST", "POST", "", 1, 1000, 2, time.Minute, 503, 1},
		{"nor what has a body", "GET", "x", 1, 1000, 2, time.Minute, 503, 1},
		{"not beyond the budget", "GET", "", 9, 20, 5, time.Second, 503, 2},
		{"not beyond MaxWait", "GET", "", 9, 1000, 5, 0, 503, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var up *upstream
			up = newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				if up.hits.Load() <= c.broken {
					w.WriteHeader(http.StatusServiceUnavailable)
					io.WriteString(w, "broken")
				}
			})
			guard := newGuard(t, nil, budget("day", c.limit, time.Hour))
			var charged atomic.Int64
			client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10), Retries: c.retries,
				MaxWait:  c.maxWait,
				Charged:  func(_ quota.Call, _ int, units quota.Units) { charged.Add(int64(units)) },
				Feedback: transient}}
			req, err := http.NewRequest(c.verb, up.URL, nil)
			if c.body != "" {
				req, err = http.NewRequest(c.verb, up.URL, strings.NewReader(c.body))
			}
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != c.status ||
				(string(body) == "broken") != (c.status == 503) {
				t.Errorf("answer %d %q, %v; want %d, whole", resp.StatusCode, body, err, c.status)
			}
			if want := quota.Units(c.hits) * 10; up.hits.Load() != c.hits || used(t, guard) != want ||
				charged.Load() != int64(want) {
				t.Errorf("%d hits, %d units in the ledger, %d reported; want %d hits, each charged", up.hits.Load(),
					used(t, guard), charged.Load(), c.hits)
			}
		})
	}
}

// transient is a feedback by which every 503 is transient, for a millisecond.
func transient(_ quota.Call, resp *http.Response) quota.Verdict {
	return quota.Verdict{Transient: resp.StatusCode == http.StatusServiceUnavailable, After: time.Millisecond}
}

// TestRetriesCannotDrainTheQuota sends 100 requests to an upstream that always
// fails. There are few retries.
func TestRetriesCannotDrainTheQuota(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	guard := newGuard(t, nil, budget("day", 10_000, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Retries: 5, MaxWait: time.Minute,
		Feedback: transient}}
	for range 100 {
		resp, err := client.Get(up.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if hits := up.hits.Load(); hits > 120 || hits < 119 || used(t, guard) != quota.Units(hits) {
		t.Errorf("%d hits and %d units for 100 requests; want 119 or 120, each charged", hits, used(t, guard))
	}
}

// TestRetriesWaitWithinMaxTotalWait: a wait that the upstream asks for counts
// like any other.
func TestRetriesWaitWithinMaxTotalWait(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	guard := newGuard(t, nil, budget("day", 1000, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Retries: 5, MaxWait: time.Minute,
		MaxTotalWait: 500 * time.Millisecond,
		Feedback: func(quota.Call, *http.Response) quota.Verdict {
			return quota.Verdict{Transient: true, After: 300 * time.Millisecond}
		}}}
	resp, err := client.Get(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if hits := up.hits.Load(); hits != 2 {
		t.Errorf("%d requests; want a second one after 300 ms, and no third", hits)
	}
}

// TestARetryWithoutADelayBacksOff: without an After, the pauses are 100, 200
// and 400 ms, each plus or minus half of it.
func TestARetryWithoutADelayBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1000, time.Hour))
		var sent []time.Time
		base := statusTripper(func(*http.Request) int {
			sent = append(sent, time.Now())
			return http.StatusServiceUnavailable
		})
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base, Retries: 3,
			MaxWait:  time.Minute,
			Feedback: func(quota.Call, *http.Response) quota.Verdict { return quota.Verdict{Transient: true} }}}
		if status, err := getStatus(client); err != nil || status != http.StatusServiceUnavailable || len(sent) != 4 {
			t.Fatalf("status %d, %v, after %d requests; want the last answer, after 4", status, err, len(sent))
		}
		for i := range 3 {
			mean := 100 * time.Millisecond << i
			if pause := sent[i+1].Sub(sent[i]); pause < mean/2 || pause > mean+mean/2 {
				t.Errorf("pause %d lasted %s; want %s, within a half", i, pause, mean)
			}
		}
	})
}
