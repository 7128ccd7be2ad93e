//go:build unix

package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
)

// TestProgramThatABudgetStopsResumes: it is started again at the budget's retry
// time, in the same tick.
func TestProgramThatABudgetStopsResumes(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 5, window: 1h}\n", "["+marketStep+"]", "emea")
	s.script(t, "market.sh", "for i in 1 2 3 4 5 6; do spend items.list || exit; done")
	report := s.run(t, t.Context())
	ended, ok := errors.AsType[*jobs.EndedEarlyError](report.Err)
	if !ok || !ended.Resumes || !report.RetryAt.After(noon) || report.RetryAt.After(noon.Add(time.Hour+time.Minute)) {
		t.Fatalf("%s (%v), retry at %s; want it to resume within the hour", report.Outcome, report.Err, report.RetryAt)
	}
	s.script(t, "market.sh", "echo ran")
	s.clock.Set(report.RetryAt.Add(time.Minute))
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete || fmt.Sprint(s.lines) != "[emea market: ran]" {
		t.Errorf("at its retry time: %s (%v) after %q; want it complete", report.Outcome, report.Err, s.lines)
	}
}
