package journal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// probeInterval is how long a ledger that failed is not called.
const probeInterval = 2 * time.Second

// breaker is a circuit breaker for a ledger. The zero breaker is closed. While
// it is, calls that succeed do not wait for each other.
type breaker struct {
	open    atomic.Bool // down is not nil
	mu      sync.Mutex
	down    error     // why the breaker is open; nil if it is closed
	until   time.Time // when to probe
	probing bool      // a call probes whether the ledger is back
}

// call calls f, or returns an error if the breaker is open. If f fails because
// the ledger is down, it is called again before that is believed: a failover or
// a pause may be over by then. A probe is not, unless another call has found
// meanwhile that the ledger is up.
func (b *breaker) call(ctx context.Context, f func() error) (err error) {
	probe, err := b.begin()
	if err != nil {
		return err
	}
	defer func() { b.end(ctx, probe, err) }()
	if err = f(); isDown(err) && !(probe && b.open.Load()) && ctx.Err() == nil {
		err = f()
	}
	return err
}

// begin reports whether the call is the one that probes the ledger.
func (b *breaker) begin() (probe bool, err error) {
	if !b.open.Load() {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		return false, nil
	}
	if b.probing || time.Now().Before(b.until) {
		return false, b.down
	}
	b.probing = true
	return true, nil
}

// retry lets the next call probe the ledger.
func (b *breaker) retry() {
	b.mu.Lock()
	b.until = time.Time{}
	b.mu.Unlock()
}

func (b *breaker) end(ctx context.Context, probe bool, err error) {
	if err == nil && !probe && !b.open.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	switch {
	case isDown(err) && !endsSoon(ctx):
		b.down, b.until = err, time.Now().Add(probeInterval)
	case isDown(err) && probe:
		b.until = time.Now().Add(probeInterval) // it was down before
	case errors.Is(err, errOwed):
		// The ledger was not called.
	case err != nil && (ctx.Err() != nil || endsSoon(ctx)):
		// The caller left before the ledger answered, so its state is unknown.
	default:
		b.down = nil
	}
	b.open.Store(b.down != nil)
}

// endsSoon reports whether a ledger may have failed because its caller has no time
// left: it gives up before a try would be too short.
func endsSoon(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 300*time.Millisecond
}
