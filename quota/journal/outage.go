package journal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// askInterval is how long a ledger that failed is not called.
const askInterval = 2 * time.Second

// outage keeps calls from a ledger that is down, except for one at a time
// which asks whether it is back. The zero outage is that of a ledger that is
// up. While it is, calls that succeed do not wait for each other.
type outage struct {
	lasts  atomic.Bool // down is not nil
	mu     sync.Mutex
	down   error     // why the ledger is down; nil if it is up
	until  time.Time // when to ask it again
	asking bool      // a call asks whether the ledger is back
}

// call calls f, or returns an error if the ledger is down. If f fails because
// the ledger is down, it is called again before that is believed: a failover or
// a pause may be over by then. A call that asks is not repeated, unless another
// has found meanwhile that the ledger is up.
func (o *outage) call(ctx context.Context, f func() error) (err error) {
	asks, err := o.begin()
	if err != nil {
		return err
	}
	defer func() { o.end(ctx, asks, err) }()
	err = f()
	mayRepeat := !asks || !o.lasts.Load()
	if isDown(err) && mayRepeat && ctx.Err() == nil {
		err = f()
	}
	return err
}

// begin reports whether the call is the one that asks the ledger.
func (o *outage) begin() (asks bool, err error) {
	if !o.lasts.Load() {
		return false, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down == nil {
		return false, nil
	}
	if o.asking || time.Now().Before(o.until) {
		return false, o.down
	}
	o.asking = true
	return true, nil
}

// retry lets the next call ask the ledger.
func (o *outage) retry() {
	o.mu.Lock()
	o.until = time.Time{}
	o.mu.Unlock()
}

func (o *outage) end(ctx context.Context, asks bool, err error) {
	if err == nil && !asks && !o.lasts.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if asks {
		o.asking = false
	}
	switch {
	case isDown(err) && !endsSoon(ctx):
		o.down, o.until = err, time.Now().Add(askInterval)
	case isDown(err) && asks:
		o.until = time.Now().Add(askInterval) // it was down before
	case errors.Is(err, errOwed):
		// The ledger was not called.
	case err != nil && (ctx.Err() != nil || endsSoon(ctx)):
		// The caller left before the ledger answered, so its state is unknown.
	default:
		o.down = nil
	}
	o.lasts.Store(o.down != nil)
}

// endsSoon reports whether a ledger may have failed because its caller has no
// time left: it gives up before a try would be too short.
func endsSoon(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 300*time.Millisecond
}
