package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// A page that is paid for and not saved is a failure: the upstream answered
// 500 or HTML, or the catalogue could not store the page. So is a program
// that fails, paid or not. After some failures in a row, a step waits before
// it is tried again, and so do all steps of its family: those of a method, or
// of a job.
const (
	stepFailures   = 2 // a step waits from this failure on,
	methodFailures = 3 // and a method, or job, from this one on, of all its steps
	firstBackoff   = 5 * time.Minute
	longestBackoff = 6 * time.Hour
)

// backoff returns how long to wait after a number of failures in a row, the
// first of which to wait is the one with number first: firstBackoff, doubled
// with each further failure up to longestBackoff.
func backoff(failures, first int) time.Duration {
	if failures < first {
		return 0
	}
	return min(firstBackoff<<min(failures-first, 10), longestBackoff)
}

// BackoffError is returned for a step that is not tried because it, or its
// method or job in all regions, keeps failing. It matches quota.ErrRefused.
type BackoffError struct {
	Name     string // of the step, the method or the job
	Failures int    // in a row
	RetryAt  time.Time
	Reason   string // of the last failure
	Program  bool   // the failures are those of a program, which may have cost nothing
}

// Error says how often the step failed, why, and when it is tried again.
func (e *BackoffError) Error() string {
	paid := " after it was paid for"
	if e.Program {
		paid = ""
	}
	return fmt.Sprintf("%s failed %s in a row%s, last with: %s; it is not tried again before %s; --again tries it "+
		"anyway",
		e.Name, human.Count(e.Failures, "time"), paid, e.Reason, human.Time(e.RetryAt))
}

// Is reports whether target is quota.ErrRefused.
func (e *BackoffError) Is(target error) bool { return target == quota.ErrRefused }

// attempt is one try at a page. It is recorded as a failure before anything is
// paid, so that a run that dies, or a catalogue that cannot be written, pays no
// more than one that fails.
type attempt struct {
	*pass
	step     Step
	calls    int // charged to the region before the attempt
	own, all catalog.Failures
	holdOff  time.Time // until when no other process tries the family; zero if it may
}

const unfinished = "the run ended in the middle"

// beginAttempt returns a *BackoffError if the step is not to be tried yet.
func (p *pass) beginAttempt(ctx context.Context, step Step) (*attempt, error) {
	a := &attempt{pass: p, step: step, calls: p.chargedCalls()}
	err := p.Catalog.ChangeFailures(ctx, p.region.Name, step.Name(), step.family(),
		func(own, all *catalog.Failures) error {
			a.own, a.all = *own, *all
			now := p.now()
			for _, f := range []*catalog.Failures{own, all} {
				wait := f.Until.Sub(now)
				if !p.Again && wait > 0 && wait <= longestBackoff { // longer only if a clock was wrong
					return &BackoffError{Name: f.Name, Failures: f.Count, RetryAt: f.Until, Reason: f.Reason,
						Program: step.Kind == Command}
				}
			}
			countFailure(own, stepFailures, now, unfinished)
			if all.Count >= methodFailures {
				all.Until = now.Add(backoff(all.Count+1, methodFailures)).Truncate(time.Millisecond)
				a.holdOff = all.Until
			}
			return nil
		})
	if stopped, ok := errors.AsType[*BackoffError](err); ok {
		err = stopped
	}
	return a, err
}

func countFailure(f *catalog.Failures, first int, now time.Time, reason string) {
	f.Count++
	f.Until, f.Reason = now.Add(backoff(f.Count, first)), reason
}

// end records how an attempt ended that brought no page, or, with a nil why,
// that it made no call. It is a failure if something was paid or a program
// failed, unless the guard, a refused key or, of a program, the user ended it:
// a call that is paid and ended before its answer would be paid again by each
// run. An error of the catalogue leaves the attempt recorded as a failure.
func (a *attempt) end(ctx context.Context, why error) {
	failed := why != nil && a.isFailure(why)
	_ = a.Catalog.ChangeFailures(context.WithoutCancel(ctx), a.region.Name, a.step.Name(), a.step.family(),
		func(own, all *catalog.Failures) error {
			*own = a.own
			if !failed {
				if all.Until.Equal(a.holdOff) {
					all.Until = a.all.Until
				}
				return nil
			}
			now := a.now()
			countFailure(own, stepFailures, now, why.Error())
			// a step that waits by itself says little about the others
			if a.own.Count < stepFailures || !a.holdOff.IsZero() {
				countFailure(all, methodFailures, now, why.Error())
			}
			return nil
		})
}

func (a *attempt) isFailure(why error) bool {
	if _, refused := errors.AsType[*quota.RefusedError](why); refused {
		return false
	}
	if errors.Is(why, quota.ErrLedgerDown) || errors.Is(why, ErrKey) || errors.Is(why, ErrNoQuota) {
		return false
	}
	if a.stop.Err() != nil && (a.step.Kind == Command || a.Meter == nil) {
		return false
	}
	return a.step.Kind == Command || a.Meter == nil || a.chargedCalls() > a.calls
}

// chargedCalls returns how many calls of this run were charged to the region.
func (p *pass) chargedCalls() int {
	if p.Meter == nil {
		return 0
	}
	calls, _ := p.Meter.Region(p.region.Name)
	return calls
}
