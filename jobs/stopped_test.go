package jobs_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

// TestLongRetryAfterStopsTheRun: for any status, a Retry-After longer than the
// run may wait stops the run after the calls in flight, and the report has the
// retry time.
func TestLongRetryAfterStopsTheRun(t *testing.T) {
	for _, status := range []int{400, 403, 404, 409, 413, 429, 500, 502, 503, 504} {
		s := newScene(t, "  - {name: day, limit: 1000, window: 24h}",
			"[{trending: {pages: 4}}, {channels: {pages: 4}}, {categories: {}}]", nil, "US", "IN", "BR")
		s.Parallel = 1
		s.upstream.Fail(youtubetest.Fault{Status: status, Times: -1, Header: http.Header{"Retry-After": {"7200"}}})
		for range 2 {
			report := s.run(t, t.Context())
			if report.Outcome != jobs.Stopped || !report.RetryAt.Equal(noon.Add(2*time.Hour)) ||
				!errors.Is(report.Err, quota.ErrRefused) {
				t.Errorf("%d: %s until %s, %v; want stopped for two hours", status, report.Outcome, report.RetryAt,
					report.Err)
			}
		}
		if got := len(s.upstream.Arrivals()); got != 1 {
			t.Errorf("%d: %d calls reached the upstream; want one", status, got)
		}
	}
}

// TestTheWorstErrorOfARunIsItsError: regions that were skipped do not count,
// and one that stopped without a refusal is told from a failure.
func TestTheWorstErrorOfARunIsItsError(t *testing.T) {
	failed, refused := errors.New("disk full"), &quota.RefusedError{Reason: quota.ReasonSpent}
	report := &jobs.Report{Regions: []jobs.RegionReport{
		{Outcome: jobs.Complete}, {Outcome: jobs.Skipped, Err: errors.New("locked")},
		{Outcome: jobs.Stopped, Err: jobs.ErrNextTick}, {Outcome: jobs.Stopped, Err: refused},
		{Outcome: jobs.Failed, Err: failed},
	}}
	first := func(targets ...error) error {
		return report.Worst(func(err error) int {
			for i, target := range targets {
				if errors.Is(err, target) {
					return i
				}
			}
			return len(targets)
		})
	}
	if err := first(failed); err != failed {
		t.Errorf("%v; want the failure", err)
	}
	if err := first(quota.ErrRefused); err != error(refused) {
		t.Errorf("%v; want the refusal", err)
	}
	stopped, ok := errors.AsType[*jobs.StoppedError](first())
	if !ok || !errors.Is(stopped, jobs.ErrNextTick) {
		t.Errorf("%v; want the first, as a StoppedError", first())
	}
	if err := (&jobs.Report{Regions: report.Regions[:2]}).Worst(nil); err != nil {
		t.Errorf("%v; want none", err)
	}
}
