package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// ErrNextTick ends a pass when its region's next tick comes, because the
// remaining pages would belong to an outdated chart.
var ErrNextTick = errors.New("the next tick has come; the rest of this pass is dropped")

// errDone means that an earlier run has finished the pass.
var errDone = errors.New("done")

// errSuspended means that the process did not run when it should have renewed a
// claim. errSilent means that it has tried to.
var (
	errSuspended = errors.New("this process was suspended")
	errSilent    = errors.New("the ledger does not answer")
)

// ElsewhereError is returned for a pass that another host has claimed or done.
// It matches quota.ErrClaimed.
type ElsewhereError struct{ Claim *engine.ClaimedError }

// Error names the host, and says what follows.
func (e *ElsewhereError) Error() string {
	host, pid := parseOwner(e.Claim.Owner)
	who := fmt.Sprintf("%s (pid %d)", host, pid)
	if host == "" {
		who = "another process"
	}
	switch {
	case e.Claim.Done:
		return fmt.Sprintf("done by %s; --again fetches anyway", who)
	case e.Claim.Until.IsZero():
		return fmt.Sprintf("%s has gone on with this pass while the ledger could not be reached from here; the next "+
			"run resumes", who)
	}
	return fmt.Sprintf("claimed by %s; if that has died, the pass can be resumed at %s", who, human.Time(e.Claim.Until))
}

// Unwrap returns e.Claim.
func (e *ElsewhereError) Unwrap() error { return e.Claim }

// LapsedError ends a pass whose claim could not be renewed in time. Another
// host may go on with it. It matches quota.ErrLedgerDown, unless the process
// was suspended.
type LapsedError struct{ Err error }

// Error says why, and what follows.
func (e *LapsedError) Error() string {
	return fmt.Sprintf("the claim on the pass cannot be renewed (%v); another host may go on with it, else the next "+
		"run does", e.Err)
}

// Unwrap returns e.Err.
func (e *LapsedError) Unwrap() error { return e.Err }

// Is reports whether target is quota.ErrLedgerDown, and the ledger is
// the reason.
func (e *LapsedError) Is(target error) bool {
	return target == quota.ErrLedgerDown && !errors.Is(e.Err, errSuspended)
}

// UpstreamError is returned when the upstream itself keeps refusing calls. It
// matches quota.ErrRefused, but unlike a refusal by the guard its calls were
// sent and are charged.
type UpstreamError struct {
	RetryAt time.Time
	Err     error // the upstream's answer
}

// Error returns the upstream's answer.
func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Is reports whether target is quota.ErrRefused.
func (e *UpstreamError) Is(target error) bool { return target == quota.ErrRefused }

// ErrNoQuota matches every *NoQuotaError.
var ErrNoQuota = errors.New("the upstream grants no quota")

// NoQuotaError is returned when the limit of the upstream's bucket is 0, so
// waiting does not help. The run does not call the method again. It does not
// match quota.ErrRefused.
type NoQuotaError struct {
	Method string
	Bucket string
	Err    error // the upstream's answer
}

// Error names the method, the bucket and what to do.
func (e *NoQuotaError) Error() string {
	return fmt.Sprintf("the upstream grants no quota for %s: the limit of its bucket %q is 0, and waiting does not "+
		"change that; request quota from the upstream, or remove the steps that call this method",
		e.Method, e.Bucket)
}

// Unwrap returns e.Err.
func (e *NoQuotaError) Unwrap() error { return e.Err }

// Is reports whether target is ErrNoQuota.
func (e *NoQuotaError) Is(target error) bool { return target == ErrNoQuota }

// ErrKey means that the upstream refuses the API key. A run makes no further
// call with it, since each may be charged.
var ErrKey = errors.New("the upstream refuses the API key; pass another one (YOUTUBE_API_KEY or --key-file), or " +
	"enable the API for its project")

// StoppedError ends a region's pass that stopped although no call was refused:
// the region's next tick has come, or the run was told to stop.
type StoppedError struct{ Err error }

// Error returns the text of e.Err.
func (e *StoppedError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *StoppedError) Unwrap() error { return e.Err }

// EndedEarlyError is returned for a program that ended with exit code 75. If a
// budget or cooldown stopped it, it is started again at the refusal's retry
// time, and otherwise at the next tick. It matches quota.ErrRefused.
type EndedEarlyError struct {
	Job     string
	RetryAt time.Time // when it is started again; zero if the next tick is not known
	Resumes bool      // RetryAt is the refusal's, not the next tick
	Err     error     // how it ended; nil in a later run for the same tick
}

// Error says why the program is not done, and when it is started again.
func (e *EndedEarlyError) Error() string {
	text := e.Job + " stopped before it was done"
	if e.Err != nil {
		text += " (" + e.Err.Error() + ")"
	}
	if e.Resumes {
		return text + "; it is started again once a call may be made, at " + human.Time(e.RetryAt)
	}
	if !e.RetryAt.IsZero() {
		text += "; it is started again at the next tick, " + human.Time(e.RetryAt)
	}
	return text + "; --again starts it before"
}

// Unwrap returns e.Err.
func (e *EndedEarlyError) Unwrap() error { return e.Err }

// Is reports whether target is quota.ErrRefused.
func (e *EndedEarlyError) Is(target error) bool { return target == quota.ErrRefused }

// RetryAt returns the time at which work that err stopped may resume, or the
// zero time if err does not say.
func RetryAt(err error) time.Time {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return refused.RetryAt
	}
	if upstream, ok := errors.AsType[*UpstreamError](err); ok {
		return upstream.RetryAt
	}
	if waits, ok := errors.AsType[*BackoffError](err); ok {
		return waits.RetryAt
	}
	if ended, ok := errors.AsType[*EndedEarlyError](err); ok {
		return ended.RetryAt
	}
	return time.Time{}
}
