package engine

import (
	"context"
	"time"
)

// RealTime reports whether a ledger is on real time, not on a test's clock.
// Refusals are cached, for up to a second, only on real time.
func RealTime(l Ledger) bool {
	real, ok := l.(interface{ RealTime() bool })
	return !ok || real.RealTime()
}

// WatchLedger returns a Ledger that passes each answer of another one to watch:
// the operation, "append" or "read", how long it took and its error. What watch
// returns takes the place of the error. It must be safe for concurrent use.
func WatchLedger(l Ledger, watch func(op, account string, took time.Duration, err error) error) Ledger {
	return &watchedLedger{Ledger: l, watch: watch}
}

type watchedLedger struct {
	Ledger
	watch func(op, account string, took time.Duration, err error) error
}

// RealTime says what RealTime says of the inner ledger.
func (l *watchedLedger) RealTime() bool { return RealTime(l.Ledger) }

// Append implements Ledger.
func (l *watchedLedger) Append(ctx context.Context, account string, a *Append) (*Tail, error) {
	began := time.Now()
	tail, err := l.Ledger.Append(ctx, account, a)
	return tail, l.watch("append", account, time.Since(began), err)
}

// Read implements Ledger.
func (l *watchedLedger) Read(ctx context.Context, account string, r *Read) (*Tail, error) {
	began := time.Now()
	tail, err := l.Ledger.Read(ctx, account, r)
	return tail, l.watch("read", account, time.Since(began), err)
}
