// Package memledger implements a ledger in the memory of one process, for
// tests and for programs that share their quota with no other process.
//
// A log is a slice of batches behind a mutex. Nothing of it outlives the
// process, and no other process sees it.
package memledger

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Options configures Open. A nil *Options is the default.
type Options struct {
	// Now is the ledger's clock, for tests; nil is time.Now.
	Now func() time.Time
}

// Ledger is an engine.Ledger in memory. It is safe for concurrent use. It keeps
// a batch, and about 50 bytes beside it, until an append trims it.
type Ledger struct {
	now  func() time.Time
	real bool

	mu     sync.RWMutex
	closed bool
	logs   map[string]*log
}

var _ engine.Ledger = (*Ledger)(nil)

// log is one account's log. Its first batch has the position head.Trimmed+1.
type log struct {
	mu      sync.Mutex
	head    engine.Head
	batches []engine.Batch
}

// Open returns an empty ledger.
func Open(o *Options) *Ledger {
	l := &Ledger{now: time.Now, real: true, logs: map[string]*log{}}
	if o != nil && o.Now != nil {
		l.now, l.real = o.Now, false
	}
	return l
}

// RealTime reports whether the ledger is on real time, not on a test's clock.
func (l *Ledger) RealTime() bool { return l.real }

// Append implements engine.Ledger. It copies a.Data.
func (l *Ledger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if err := a.Check(account); err != nil {
		return nil, fmt.Errorf("memory ledger: %w", err)
	}
	g, err := l.find(ctx, account, true)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := l.now().UnixMicro()
	tail := g.read(&engine.Read{Known: a.Known, Bytes: a.Bytes}, now)
	if tail.Diverged || !g.head.Admits(a, now) {
		return tail, nil
	}
	at := g.head.Append(a, now)
	g.batches = append(g.batches, engine.Batch{Position: g.head.Position, At: at, Data: bytes.Clone(a.Data)})
	if excess := len(g.batches) - int(g.head.Position-g.head.Trimmed); excess > 0 {
		clear(g.batches[:excess])
		g.batches = g.batches[excess:]
	}
	after := g.head.Tail(now)
	after.Appended, after.At = true, at
	after.Batches, after.More = tail.Batches, tail.More
	return after, nil
}

// Read implements engine.Ledger. The caller must not change the batches' data.
func (l *Ledger) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	g, err := l.find(ctx, account, false)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.read(r, l.now().UnixMicro()), nil
}

// find returns the log of an account. If there is none, it returns an empty
// one, and keeps it if an append may follow.
func (l *Ledger) find(ctx context.Context, account string, keep bool) (*log, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mu.RLock()
	g, closed := l.logs[account], l.closed
	l.mu.RUnlock()
	switch {
	case closed:
		return nil, fmt.Errorf("memory ledger: %w", engine.ErrLedgerClosed)
	case g != nil:
		return g, nil
	case !keep:
		return &log{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("memory ledger: %w", engine.ErrLedgerClosed)
	}
	if g = l.logs[account]; g == nil {
		g = &log{}
		l.logs[account] = g
	}
	return g, nil
}

// read returns the answer to a Read. The caller holds mu.
func (g *log) read(r *engine.Read, now int64) *engine.Tail {
	tail := g.head.Tail(now)
	var tag engine.Tag
	if g.head.NeedsTag(&r.Known) {
		tag = g.batches[r.After-tail.First].Tag()
	}
	if g.head.HasDiverged(&r.Known, tag) {
		tail.Diverged = true
		return tail
	}
	page := engine.Page{Bytes: r.Bytes}
	for _, b := range g.batches[g.head.After(&r.Known)-g.head.Trimmed:] {
		if !page.Add(tail, b) {
			break
		}
	}
	return tail
}

// Accounts implements engine.Ledger.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := l.names(ctx)
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// names returns the accounts that have a log.
func (l *Ledger) names(ctx context.Context) (names []string, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, fmt.Errorf("memory ledger: %w", engine.ErrLedgerClosed)
	}
	for name, g := range l.logs {
		g.mu.Lock()
		exists := g.head.Epoch != 0
		g.mu.Unlock()
		if exists {
			names = append(names, name)
		}
	}
	return names, nil
}

// Close implements engine.Ledger. It drops all logs.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.logs = true, nil
	return nil
}
