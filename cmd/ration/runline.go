package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// runLine is the one line of a run that did not end complete. err decides the exit
// code.
func runLine(report *jobs.Report, err error, now time.Time) string {
	var done int
	var left []string
	for _, region := range report.Regions {
		if region.Outcome == jobs.Complete || region.Outcome == jobs.Skipped {
			done++
		} else {
			left = append(left, region.Region)
		}
	}
	progress := fmt.Sprintf("%d of %s done (left: %s)", done, human.Count(len(report.Regions), "region"), strings.Join(left, " "))
	if as[*signalError](err) {
		return fmt.Sprintf("%s; %s; the next run resumes there", message(err), progress)
	}
	causes := describeCauses(causesOf(report))
	if exit, _ := code(err); exit != exitStopped {
		return fmt.Sprintf("failed: %s; %s", causes, progress)
	}
	when := ""
	if at := report.RetryAt; !at.IsZero() {
		when = fmt.Sprintf("; try again at %s (in %s)", human.Time(at), human.Duration(at.Sub(now)))
	}
	return fmt.Sprintf("stopped: %s; %s%s", causes, progress, when)
}

// hasWaiting reports whether a step waits because it keeps failing.
func hasWaiting(report *jobs.Report) bool {
	return slices.ContainsFunc(report.Regions, func(r jobs.RegionReport) bool { return len(r.Waiting) > 0 })
}

// cause is why some regions are not done.
type cause struct {
	err     error // of the first region
	regions []string
}

// causesOf returns why regions are not done, the worst cause first.
func causesOf(report *jobs.Report) []cause {
	var causes []cause
	places := map[string]int{}
	for _, region := range report.Regions {
		if region.Err == nil || region.Outcome == jobs.Skipped {
			continue
		}
		errs := region.Waiting
		if !as[*jobs.BackoffError](region.Err) {
			errs = append([]error{region.Err}, errs...)
		}
		for _, err := range errs {
			if region.Outcome == jobs.Stopped && !errors.Is(err, quota.ErrRefused) {
				err = &jobs.StoppedError{Err: err}
			}
			name := causeName(err)
			place, known := places[name]
			if !known {
				place = len(causes)
				places[name], causes = place, append(causes, cause{err: err})
			}
			causes[place].regions = append(causes[place].regions, region.Region)
		}
	}
	slices.SortStableFunc(causes, func(a, b cause) int { return rank(a.err) - rank(b.err) })
	return causes
}

// causeName returns what errors with the same cause have in common.
func causeName(err error) string {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return fmt.Sprintf("%q", []string{refused.Account, refused.Budget, string(refused.Reason)})
	}
	if waits, ok := errors.AsType[*jobs.BackoffError](err); ok {
		return fmt.Sprintf("%q", []string{waits.Name, waits.Reason})
	}
	return err.Error()
}

// maxCauses is how many causes a line has.
const maxCauses = 5

// describeCauses joins the causes in one line. If there are several, it names their
// regions.
func describeCauses(causes []cause) string {
	if len(causes) == 1 {
		return describeCause(causes[0].err)
	}
	var texts []string
	for _, c := range causes[:min(len(causes), maxCauses)] {
		texts = append(texts, strings.Join(c.regions, " ")+": "+describeCause(c.err))
	}
	if more := len(causes) - maxCauses; more > 0 {
		texts = append(texts, human.Count(more, "other cause"))
	}
	return strings.Join(texts, "; ")
}

// describeCause is why a region is not done. When to come back to a refused one is
// said at the end of the line.
func describeCause(err error) string {
	if exit, _ := code(err); exit != exitStopped {
		return message(err)
	}
	reason := err.Error()
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok && refused.Ahead == 0 {
		reason = strings.Replace(reason, refused.Error(), refused.Short(), 1)
	}
	return redact.URLs(reason)
}
