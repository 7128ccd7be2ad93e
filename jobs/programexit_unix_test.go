//go:build unix

package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// TestExit75StopsUntilTheNextTick: the other steps go on, and nothing starts
// the program again for this tick but --again.
func TestExit75StopsUntilTheNextTick(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "["+marketStep+", {command: ./other.sh}]", "emea")
	s.script(t, "market.sh", "echo no room >&2; exit 75")
	s.script(t, "other.sh", "echo ran")
	next := noon.Add(23 * time.Hour)
	report := s.run(t, t.Context())
	const want = "market stopped before it was done (exit status 75: no room); it is started again at the next " +
		"tick, 2026-11-21T11:00:00Z; --again starts it before"
	if report.Outcome != jobs.Stopped || !report.RetryAt.Equal(next) || !errors.Is(report.Err, quota.ErrRefused) ||
		report.Err.Error() != want || len(s.lines) != 2 {
		t.Fatalf("%s (%v) after %q, retry at %s; want stopped until %s, after both", report.Outcome, report.Err,
			s.lines, report.RetryAt, next)
	}
	s.script(t, "market.sh", "echo ran")
	if report = s.run(t, t.Context()); report.Outcome != jobs.Stopped || !report.RetryAt.Equal(next) ||
		len(s.lines) != 0 {
		t.Errorf("again: %s (%v) after %q; want stopped still", report.Outcome, report.Err, s.lines)
	}
	s.Again = true
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete || fmt.Sprint(s.lines) != "[emea market: ran]" {
		t.Errorf("--again: %s (%v) after %q; want it complete", report.Outcome, report.Err, s.lines)
	}
	s.Again = false
	s.script(t, "market.sh", "exit 75")
	s.clock.Set(next)
	if report = s.run(t, t.Context()); report.Outcome != jobs.Stopped || len(s.lines) != 1 {
		t.Errorf("the next tick: %s (%v) after %q; want both started", report.Outcome, report.Err, s.lines)
	}
}

// TestFailingProgramBacksOff: from its second failure it waits, and a success
// ends that.
func TestFailingProgramBacksOff(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "["+marketStep+"]", "emea")
	s.script(t, "market.sh", "echo broken; exit 2")
	for range 2 {
		if report := s.run(t, t.Context()); report.Outcome != jobs.Failed || len(s.lines) != 1 {
			t.Fatalf("%s (%v) after %q; want failed", report.Outcome, report.Err, s.lines)
		}
	}
	report := s.run(t, t.Context())
	waits, ok := errors.AsType[*jobs.BackoffError](report.Err)
	if !ok || report.Outcome != jobs.Stopped || len(s.lines) != 0 || !waits.RetryAt.Equal(noon.Add(5*time.Minute)) ||
		!strings.Contains(waits.Error(),
			"market failed 2 times in a row, last with: exit status 2: broken; it is not tried again before") {
		t.Fatalf("%s (%v) after %q; want it to wait", report.Outcome, report.Err, s.lines)
	}
	s.script(t, "market.sh", "echo mended")
	s.clock.Set(waits.RetryAt)
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Errorf("after its wait: %s (%v); want complete", report.Outcome, report.Err)
	}
	if failures, err := s.Catalog.Failures(t.Context()); err != nil || len(failures) != 0 {
		t.Errorf("%v, %v; want no failures left", failures, err)
	}
}

// TestNoProgramIsStartedWithoutQuota: while a cooldown or an empty budget would
// refuse the first call, the program is not started, and the step says when to
// come back.
func TestNoProgramIsStartedWithoutQuota(t *testing.T) {
	s := newPrograms(t,
		"  - {name: list, limit: 3, window: 24h, methods: [items.list]}\n  - {name: search, limit: 5, window: 24h, "+
			"methods: [items.search]}\n", "["+marketStep+"]", "emea")
	s.script(t, "market.sh", "echo ran; spend items.list")
	spend := func(method string) {
		t.Helper()
		call, err := s.Table.Call("", method)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Guard.Spend(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, outcome jobs.Outcome, retryAt time.Time, started int) {
		t.Helper()
		report := s.run(t, t.Context())
		refused, _ := errors.AsType[*quota.RefusedError](report.Err)
		if report.Outcome != outcome || len(s.lines) != started || !report.RetryAt.Equal(retryAt) ||
			(refused != nil) != (outcome == jobs.Stopped) {
			t.Errorf("%s: %s (%v) after %q, retry at %s; want %s until %s", name, report.Outcome, report.Err, s.lines,
				report.RetryAt, outcome, retryAt)
		}
	}
	for range 3 {
		spend("items.list")
	}
	check("an empty budget", jobs.Stopped, noon.Add(24*time.Hour), 0)
	s.clock.Add(25 * time.Hour)
	if err := s.Guard.Cool(t.Context(),
		quota.Cooldown{Account: "acme", For: 10 * time.Minute, Reason: "429"}); err != nil {
		t.Fatal(err)
	}
	check("a cooldown", jobs.Stopped, s.clock.Now().Add(10*time.Minute), 0)
	s.clock.Add(10 * time.Minute)
	spend("items.search")
	check("only the second method's is empty", jobs.Complete, time.Time{}, 1)
	if failures, err := s.Catalog.Failures(t.Context()); err != nil || len(failures) != 0 {
		t.Errorf("%v, %v; want no failures", failures, err)
	}
}

// TestTimeoutIsAFailure: it says so, and nothing is left of the program.
func TestTimeoutIsAFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a program that hangs")
	}
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "[{command: ./market.sh, timeout: 1s}]", "emea")
	s.script(t, "market.sh", "echo begun; sleep 60")
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed ||
		fmt.Sprint(report.Err) != "market.sh: killed after its timeout of 1s: begun" {
		t.Errorf("%s (%v); want failed by its timeout", report.Outcome, report.Err)
	}
}

// TestShutdownDoesNotCountAsAFailure: the program is told to end, and the next
// run starts it again.
func TestShutdownDoesNotCountAsAFailure(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "["+marketStep+"]", "emea")
	s.script(t, "market.sh",
		"trap 'echo told; exit 75' TERM; spend items.list; echo begun; while :; do sleep 0.01; done")
	why := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	output := s.Output
	s.Output = func(l jobs.OutputLine) {
		output(l)
		if l.Text == "begun" {
			cancel(why)
		}
	}
	report := s.run(t, ctx)
	if report.Outcome != jobs.Stopped || !errors.Is(report.Err, why) || report.Units != 1 ||
		!slices.Contains(s.lines, "emea market: told") {
		t.Fatalf("%s (%v) with %d units after %q; want stopped, and why", report.Outcome, report.Err, report.Units,
			s.lines)
	}
	s.script(t, "market.sh", "exit 0")
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Errorf("the next run: %s (%v); want complete", report.Outcome, report.Err)
	}
}
