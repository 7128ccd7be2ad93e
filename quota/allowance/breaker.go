package allowance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
)

// pause is how long a ledger that failed is left alone.
const pause = 2 * time.Second

// breaker remembers that a ledger failed. Its zero value knows of no failure.
type breaker struct {
	mu     sync.Mutex
	down   error     // what is answered without asking; nil: ask
	until  time.Time // when to ask again
	asking bool      // somebody does
}

// ask calls f, or returns why not.
func (b *breaker) ask(ctx context.Context, f func() error) (err error) {
	alone, err := b.enter()
	if err != nil {
		return err
	}
	defer func() { b.leave(ctx, alone, err) }()
	return f()
}

// enter reports whether the caller alone is to find out if the ledger is back.
func (b *breaker) enter() (alone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		return false, nil
	}
	if b.asking || time.Now().Before(b.until) {
		return false, b.down
	}
	b.asking = true
	return true, nil
}

func (b *breaker) leave(ctx context.Context, alone bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if alone {
		b.asking = false
	}
	switch {
	case isDown(err):
		b.down, b.until = err, time.Now().Add(pause)
	case errors.Is(err, quota.ErrInDoubt):
		// The next calls were not asked for, so nothing of them is in doubt.
		b.down, b.until = fmt.Errorf("%w: it did not answer an earlier call", quota.ErrLedgerDown), time.Now().Add(pause)
	case err != nil && ctx.Err() != nil:
		// The caller left before the ledger answered: that tells nothing.
	default:
		b.down = nil
	}
}
