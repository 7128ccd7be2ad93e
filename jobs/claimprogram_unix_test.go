//go:build unix

package jobs_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
)

// TestADoneProgramIsStartedByNoOtherHost: a program that is done, or has ended
// with 75, is not started by another host before the next tick. One that failed
// is.
func TestADoneProgramIsStartedByNoOtherHost(t *testing.T) {
	const fetch = "[{command: [./stops.sh], calls: {items.list: 1}}, {command: [./fails.sh], calls: {items.list: " +
		"1}}, {command: [./done.sh], calls: {items.list: 1}}]"
	first := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", fetch, "emea")
	first.script(t, "done.sh", "echo done")
	first.script(t, "stops.sh", "echo stops; exit 75")
	first.script(t, "fails.sh", "echo fails; exit 1")
	store, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Now: first.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	second := *first.Runner
	second.Catalog = store
	run := func(runner *jobs.Runner, programs int, failed bool) {
		t.Helper()
		report, err := runner.Run(t.Context(), first.regions)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Regions[0]
		if _, ended := errors.AsType[*jobs.EndedEarlyError](r.Err); r.Started != programs ||
			failed != (r.Outcome == jobs.Failed) || !failed && !ended {
			t.Errorf("%d programs were started, %s, %v; want %d, failed: %v", r.Started, r.Outcome, r.Err, programs,
				failed)
		}
	}
	run(first.Runner, 2, true) // the pass ends with the failure
	run(&second, 1, true)      // of the one that failed
	first.script(t, "fails.sh", "echo works")
	run(&second, 2, false)
	run(first.Runner, 0, false)
}
