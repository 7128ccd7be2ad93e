package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// runLine is the one line of a run that did not end complete. err decides the
// exit code.
func runLine(report *jobs.Report, err error, now time.Time) string {
	progress := report.Progress()
	if as[*signalError](err) {
		return fmt.Sprintf("%s; %s; the next run resumes there", message(err), progress)
	}
	causes := report.DescribeCauses(rank, describeCause)
	if exit, _ := code(err); exit != exitStopped {
		return fmt.Sprintf("failed: %s; %s", causes, progress)
	}
	when := ""
	if at := report.RetryAt; !at.IsZero() {
		when = fmt.Sprintf("; try again at %s (in %s)", human.Time(at), human.Duration(at.Sub(now)))
	}
	return fmt.Sprintf("stopped: %s; %s%s", causes, progress, when)
}

// describeCause is why a region is not done. When to come back to a refused one
// is said at the end of the line.
func describeCause(err error) string {
	if exit, _ := code(err); exit != exitStopped {
		return message(err)
	}
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok && refused.Ahead == 0 {
		return cli.RedactMessage(refused.Short())
	}
	return cli.RedactMessage(err.Error())
}
