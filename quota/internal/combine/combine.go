// Package combine lets concurrent callers of a ledger share its round trips:
// while one batch of a log is in flight, the next callers gather. Each caller
// gets the answers that it would get alone.
//
// A Combiner has at most one batch of a log in flight, so that a ledger that
// remembers the last batch of each client can answer a retry exactly.
package combine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/quota"
)

// MaxBatch is the most requests that share one round trip, which bounds how
// long other callers wait for the ledger.
const MaxBatch = 128

// Combiner combines requests. Create it with New. It is safe for
// concurrent use.
type Combiner struct {
	core    Core
	refund  func(quota.Receipt)
	timeout time.Duration
	client  uint64
	seq     atomic.Uint64

	mu     sync.Mutex
	queues map[logName]*queue
}

// Core decides one batch with an id in one round trip.
type Core = quota.SpendFunc

type logName struct{ account, key string }

// queue holds the callers that wait for one log. It exists while a batch of the
// log is in flight.
type queue struct {
	waiting []*waiter
	failed  error // of the last batch
}

// waiter is a call of Spend that shares a batch.
type waiter struct {
	requests []quota.Request
	history  time.Duration
	known    quota.Receipt
	newest   func() quota.Receipt
	clock    time.Time
	upstream func(string, time.Time) time.Time
	answers  []quota.Answer
	err      error
	since    time.Time
	left     atomic.Bool   // the caller has, while its batch was in flight
	ready    chan struct{} // has a value once answers or err are set
}

// New returns a Combiner that sends batches to core, which must itself end
// after timeout: callers that have waited for as long get an error. If a
// caller's context ends while its batch is in flight, the Combiner calls refund
// for what the caller was granted, since its calls are not sent.
func New(core Core, refund func(quota.Receipt), timeout time.Duration) *Combiner {
	c := &Combiner{core: core, refund: refund, timeout: timeout, client: quota.NewClient(), queues: map[logName]*queue{}}
	c.seq.Store(1)
	return c
}

// Around puts a layer around the core. It must be called before the
// first Spend.
func (c *Combiner) Around(layer func(Core) Core) { c.core = layer(c.core) }

// Spend implements quota.Ledger. It combines batches without an id. A batch
// with an id is sent alone.
func (c *Combiner) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if batch.Client != 0 {
		return Alone(ctx, c.core, batch)
	}
	name := logName{batch.Account, batch.Key}
	me := &waiter{requests: batch.Requests, history: batch.History, known: batch.Known, newest: batch.Newest, clock: batch.Clock, upstream: batch.Upstream, ready: make(chan struct{}, 1)}
	if c.enter(name, me) {
		c.start(ctx, name, me)
	}
	select {
	case <-me.ready:
		return me.answers, me.err
	case <-ctx.Done():
		if !c.withdraw(name, me) {
			c.abandon(me)
		}
		return nil, context.Cause(ctx)
	}
}

// Alone sends a batch with an id. If the caller's context ends meanwhile, Alone
// returns an ErrInDoubt with the context's error at once. The batch goes on,
// and what it is granted is not refunded: the caller may repeat it by its id.
func Alone(ctx context.Context, core Core, batch *quota.Batch) ([]quota.Answer, error) {
	lasting := context.WithoutCancel(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case ctx.Done() == nil:
		return core(lasting, batch)
	}
	var answers []quota.Answer
	var err error
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		answers, err = core(lasting, batch)
	}()
	select {
	case <-decided:
		return answers, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", quota.ErrInDoubt, context.Cause(ctx))
	}
}

// start sends a batch and those that gather meanwhile. If the caller's context
// may end, it does so in the background, because others wait for the batch too.
func (c *Combiner) start(ctx context.Context, name logName, me *waiter) {
	if ctx.Done() != nil {
		go c.drain(name, me)
		return
	}
	c.lead(name, me)
	if first := c.next(name); first != nil {
		go c.drain(name, first)
	}
}

// drain sends batches until no caller waits. One goroutine sends them all,
// because SQLite needs a deep stack, which a new goroutine takes long to grow.
func (c *Combiner) drain(name logName, first *waiter) {
	for ; first != nil; first = c.next(name) {
		c.lead(name, first)
	}
}

// enter reports whether me must send a batch now. Otherwise it queues me.
func (c *Combiner) enter(name logName, me *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[name]; q != nil {
		me.since = time.Now()
		q.waiting = append(q.waiting, me)
		return false
	}
	c.queues[name] = &queue{}
	return true
}

// withdraw removes a caller from the queue. It reports false if the caller
// leads or its batch is in flight.
func (c *Combiner) withdraw(name logName, me *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		return false
	}
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(other *waiter) bool { return other == me })
	return len(q.waiting) < before
}

// abandon refunds a caller whose context ended while its batch was in flight.
func (c *Combiner) abandon(me *waiter) {
	me.left.Store(true)
	select {
	case <-me.ready:
		c.refundAll(me)
	default:
		go func() { <-me.ready; c.refundAll(me) }()
	}
}

// lead sends one batch: me's own requests and those of the callers that wait.
// It first lets callers return that were just answered: otherwise the callers
// would split into two groups that take turns.
func (c *Combiner) lead(name logName, me *waiter) {
	runtime.Gosched()
	waiters := c.gather(name, me)
	batch := &quota.Batch{Account: name.account, Key: name.key, Client: c.client, History: me.history, Known: me.known, Newest: me.newest, Clock: me.clock, Upstream: me.upstream, Requests: me.requests}
	if len(waiters) > 1 {
		batch.Requests = nil
		for _, waiter := range waiters {
			batch.Requests = append(batch.Requests, waiter.requests...)
			batch.History = max(batch.History, waiter.history)
			if waiter.known.At.After(batch.Known.At) {
				batch.Known, batch.Newest = waiter.known, waiter.newest
			}
			if waiter.clock.After(batch.Clock) {
				batch.Clock = waiter.clock
			}
			if batch.Upstream == nil {
				batch.Upstream = waiter.upstream
			}
		}
	}
	n := uint64(len(batch.Requests))
	batch.Seq = c.seq.Add(n) - n
	answers, err := c.core(context.WithValue(context.Background(), callersKey{}, waiters), batch)
	if err == nil && len(answers) != len(batch.Requests) {
		err = quota.ErrInDoubt
	}
	c.mu.Lock()
	c.queues[name].failed = err
	c.mu.Unlock()
	for _, waiter := range waiters {
		waiter.err = err
		if err == nil {
			n := len(waiter.requests)
			waiter.answers, answers = answers[:n:n], answers[n:]
		}
		waiter.ready <- struct{}{}
	}
}

type callersKey struct{}

// Stays returns which requests of a batch have a caller that still waits; nil
// means all. ctx is that with which a Combiner sent the batch. The others need
// not be granted: their refunds may come too late.
func Stays(ctx context.Context) (stays []bool) {
	waiters, _ := ctx.Value(callersKey{}).([]*waiter)
	hasLeft := func(w *waiter) bool { return w.left.Load() }
	if !slices.ContainsFunc(waiters, hasLeft) {
		return nil
	}
	for _, w := range waiters {
		for range w.requests {
			stays = append(stays, !hasLeft(w))
		}
	}
	return stays
}

// late returns the error of callers that have waited for as long as a batch may
// take: the batches before theirs were slow. The ledger is down only if the
// last of them says so.
func (q *queue) late() error {
	kind := quota.ErrLedgerBusy
	if errors.Is(q.failed, quota.ErrLedgerDown) && !errors.Is(q.failed, quota.ErrInDoubt) {
		kind = quota.ErrLedgerDown
	}
	return &lateError{kind}
}

// lateError is an ErrLedgerBusy or ErrLedgerDown, its kind.
type lateError struct{ kind error }

// Error says that the caller has waited too long, and of what kind the
// error is.
func (e *lateError) Error() string { return fmt.Sprintf("%v: %s", e.kind, e.Short()) }

// Short says that the caller has waited too long.
func (e *lateError) Short() string { return "the calls before this one took too long" }

// Unwrap returns the kind.
func (e *lateError) Unwrap() error { return e.kind }

// gather removes the callers of the next batch from the queue. Callers that
// have waited too long get an error.
func (c *Combiner) gather(name logName, me *waiter) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	waiters, requests := []*waiter{me}, len(me.requests)
	taken := 0
	for _, waiter := range q.waiting {
		if !c.expire(q, waiter) {
			if requests += len(waiter.requests); requests > MaxBatch {
				break
			}
			waiters = append(waiters, waiter)
		}
		taken++
	}
	q.waiting = q.waiting[taken:]
	return waiters
}

// expire reports whether a caller has waited for as long as a batch may take.
// If so, it answers the caller with an error.
func (c *Combiner) expire(q *queue, waiter *waiter) bool {
	if time.Since(waiter.since) <= c.timeout {
		return false
	}
	waiter.err = q.late()
	waiter.ready <- struct{}{}
	return true
}

// next removes and returns the first caller that waits, or removes the queue.
func (c *Combiner) next(name logName) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	for len(q.waiting) > 0 {
		first := q.waiting[0]
		q.waiting = q.waiting[1:]
		if !c.expire(q, first) {
			return first
		}
	}
	delete(c.queues, name)
	return nil
}

func (c *Combiner) refundAll(me *waiter) {
	for i, answer := range me.answers {
		if answer.Err == nil {
			r := &me.requests[i]
			answer.Receipt.Recorded = &quota.Recorded{Method: r.Method, Caller: r.Caller, Units: r.Units}
			c.refund(answer.Receipt)
		}
	}
}

// Names reports whether the Combiner gave a batch its id, so that only its core
// can send the batch again.
func (c *Combiner) Names(batch *quota.Batch) bool { return batch.Client == c.client }
