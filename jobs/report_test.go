package jobs_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
)

// TestRetryAtIsTheSoonestOfAllSteps has a search that is refused for a day
// between charts that are refused for a minute.
func TestRetryAtIsTheSoonestOfAllSteps(t *testing.T) {
	s := newScene(t,
		"  - {name: charts, limit: 2, window: 1m, methods: [videos.list]}\n  - {name: searches, limit: 100, window: "+
			"24h, methods: [search.list]}\n",
		"[{search: {queries: [music, goal]}}, trending]", nil, "US")
	report := s.run(t, t.Context())
	soon := report.RetryAt
	if report.Outcome != jobs.Stopped || soon.Before(noon.Add(time.Minute)) || soon.After(noon.Add(61*time.Second)) ||
		!report.Regions[0].RetryAt.Equal(soon) {
		t.Fatalf("%s (%v), retry at %s; want stopped until the chart may go on, in a minute", report.Outcome,
			report.Err, soon)
	}
	s.clock.Set(soon.Add(time.Millisecond))
	if report = s.run(t, t.Context()); s.upstream.Total() != 104 || report.Outcome != jobs.Stopped ||
		report.RetryAt.Before(noon.Add(24*time.Hour)) {
		t.Errorf("a minute later: %s after %d units, retry at %s; want the chart's other two pages, and the search "+
			"a day later", report.Outcome, s.upstream.Total(), report.RetryAt)
	}
}

// TestRunUsesItsLane: calls are charged to budgets of the run's lane.
func TestRunUsesItsLane(t *testing.T) {
	s := newScene(t,
		"  - {name: all, limit: 100, window: 24h}\n  - {name: backfill, limit: 3, window: 24h, lanes: [backfill], "+
			"methods: [videos.list]}\n", "[trending]", nil, "US")
	s.Lane = "backfill"
	if report := s.run(t, t.Context()); report.Outcome != jobs.Stopped || report.Units != 3 {
		t.Fatalf("%s (%v) with %d units; want backfill's three", report.Outcome, report.Err, report.Units)
	}
	s.Lane = ""
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || s.upstream.Total() != 4 {
		t.Errorf("%s (%v) after %d units; want the last page on the lane of cron", report.Outcome, report.Err,
			s.upstream.Total())
	}
	balances, err := s.guard.Balances(t.Context())
	if err != nil || balances[0].Used != 4 || balances[1].Used != 3 {
		t.Errorf("%+v, %v; want 4 units of all and 3 of backfill", balances, err)
	}
}
