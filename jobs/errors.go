package jobs

import (
	"errors"
	"fmt"
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

// ErrNoQuota is every *NoQuotaError.
var ErrNoQuota = errors.New("the upstream grants no quota")

// NoQuotaError says that the limit of the upstream's bucket is 0: no wait lifts
// it, and its calls are not made again in this run. It is no quota.ErrRefused.
type NoQuotaError struct {
	Method string
	Bucket string
	Err    error // what the upstream answered
}

// Error names the method, the bucket and what to do.
func (e *NoQuotaError) Error() string {
	return fmt.Sprintf("the upstream grants no quota for %s: the limit of its bucket %q is 0, and no wait lifts that; ask the upstream for quota, or remove the steps that make the call",
		e.Method, e.Bucket)
}

// Unwrap returns what the upstream answered.
func (e *NoQuotaError) Unwrap() error { return e.Err }

// Is reports that every NoQuotaError is an ErrNoQuota.
func (e *NoQuotaError) Is(target error) bool { return target == ErrNoQuota }

// ErrKey means that the upstream refuses the API key. A run makes no further
// call with it: each may be charged.
var ErrKey = errors.New("the upstream refuses the API key; give another (YOUTUBE_API_KEY or --key-file), or let the project use the API")

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
