package jobs

import (
	"errors"
	"time"

	"github.com/ration-dev/ration/quota"
)

// ErrNextTick ends a run whose region's next tick has come: what is left
// belongs to an older hour's chart.
var ErrNextTick = errors.New("its next tick has come, the rest of this one is dropped")

// errDone says that a pass was finished by an earlier run.
var errDone = errors.New("done")

// UpstreamError says that the upstream itself keeps refusing calls. Like a
// refusal here it stops a step (it is a quota.ErrRefused), but its calls were
// made and are charged.
type UpstreamError struct {
	RetryAt time.Time
	Err     error // what the upstream answered
}

// Error is what the upstream answered.
func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns what the upstream answered.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Is reports that every UpstreamError is a quota.ErrRefused.
func (e *UpstreamError) Is(target error) bool { return target == quota.ErrRefused }

// RetryAt returns when what an error stopped may go on, and the zero time if
// the error does not say.
func RetryAt(err error) time.Time {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return refused.RetryAt
	}
	if upstream, ok := errors.AsType[*UpstreamError](err); ok {
		return upstream.RetryAt
	}
	return time.Time{}
}
