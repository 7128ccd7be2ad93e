package jobs_test

import (
	"errors"
	"testing"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestARefusedKeyEndsTheRun: after the upstream has refused the key, the run
// makes no further call, since each may be charged.
func TestARefusedKeyEndsTheRun(t *testing.T) {
	s := newScene(t, "  - {name: all, limit: 1000, window: 24h}", "[{search: {queries: [music]}}, trending]",
		&youtubetest.Options{Keys: []string{"another"}}, "US", "IN", "GB")
	s.Parallel = 1
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Failed || len(s.upstream.Arrivals()) != 1 {
		t.Errorf("%s after %d calls; want it failed after one", report.Outcome, len(s.upstream.Arrivals()))
	}
	for _, region := range report.Regions {
		if !errors.Is(region.Err, jobs.ErrKey) {
			t.Errorf("%s: %v; want ErrKey", region.Region, region.Err)
		}
		if progress, err := s.Catalog.Pass(t.Context(), region.Region, region.Tick); err != nil ||
			len(progress.Steps) != 0 {
			t.Errorf("%s: %+v, %v; want no page", region.Region, progress.Steps, err)
		}
	}
}
