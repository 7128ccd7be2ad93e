// Package combine lets concurrent callers of a remote ledger share its round
// trips: while one batch of a log is in flight the next one gathers. The
// answers are those of one call after the other.
//
// At most one batch of a log is in flight for a Combiner, so a ledger that
// remembers the last batch of each client can answer a resent one exactly.
package combine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
)

// MaxBatch is the most requests that share one round trip: a ledger that
// others wait for bounds its work.
const MaxBatch = 128

// Combiner gathers requests. Make one with New; it is safe for concurrent use.
type Combiner struct {
	core    Core
	giveUp  func(quota.Receipt)
	timeout time.Duration
	client  uint64

	mu    sync.Mutex
	seq   uint64
	lanes map[laneName]*lane
}

// Core decides one batch, with an id, in one round trip.
type Core func(context.Context, *quota.Batch) ([]quota.Answer, error)

type laneName struct{ account, key string }

// lane is the queue of one log. It exists while a batch of it is in flight.
type lane struct{ waiting []*caller }

// caller is one Spend that shares a batch.
type caller struct {
	requests []quota.Request
	history  time.Duration
	answers  []quota.Answer
	err      error
	since    time.Time
	ready    chan struct{} // holds one: there are answers, or err
}

// New returns a combiner that sends its batches to core, each with a deadline
// of its own. A caller that leaves while its batch is in flight gets no answer;
// refund takes back what was granted to it, since nothing was sent.
func New(core Core, refund func(quota.Receipt), timeout time.Duration) *Combiner {
	return &Combiner{core: core, giveUp: refund, timeout: timeout, client: quota.NewClient(), seq: 1, lanes: map[laneName]*lane{}}
}

// Spend implements quota.Ledger for batches without an id; one that has an id
// is sent as it is, with the deadline.
func (c *Combiner) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if batch.Client != 0 {
		return c.send(ctx, batch)
	}
	name := laneName{batch.Account, batch.Key}
	me := &caller{requests: batch.Requests, history: batch.History, ready: make(chan struct{}, 1)}
	if c.enter(name, me) {
		c.start(ctx, name, me)
	}
	select {
	case <-me.ready:
		return me.answers, me.err
	case <-ctx.Done():
		if !c.withdraw(name, me) {
			c.leave(me)
		}
		return nil, context.Cause(ctx)
	}
}

// start sends a batch, and those that gather meanwhile: in the background if the
// caller might leave, which must not end what others wait for.
func (c *Combiner) start(ctx context.Context, name laneName, me *caller) {
	if ctx.Done() != nil {
		go c.drain(name, me)
		return
	}
	c.lead(name, me)
	if first := c.next(name); first != nil {
		go c.drain(name, first)
	}
}

// drain sends batches until nobody waits. It is one goroutine for all of
// them: SQLite needs a deep stack, which takes a new one long to grow.
func (c *Combiner) drain(name laneName, first *caller) {
	for ; first != nil; first = c.next(name) {
		c.lead(name, first)
	}
}

// enter reports whether me is to send a batch now; otherwise it is queued.
func (c *Combiner) enter(name laneName, me *caller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lanes[name]; l != nil {
		me.since = time.Now()
		l.waiting = append(l.waiting, me)
		return false
	}
	c.lanes[name] = &lane{}
	return true
}

// withdraw takes a caller out of the queue, unless its batch is in flight or it leads.
func (c *Combiner) withdraw(name laneName, me *caller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[name]
	if l == nil {
		return false
	}
	for i, other := range l.waiting {
		if other == me {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// leave is for a caller whose context ended when its batch was in flight.
func (c *Combiner) leave(me *caller) {
	select {
	case <-me.ready:
		c.refund(me)
	default:
		go func() { <-me.ready; c.refund(me) }()
	}
}

// lead sends one batch: the caller's own requests and those that wait. Callers
// that were answered just now may come back first: else two crowds take turns.
func (c *Combiner) lead(name laneName, me *caller) {
	runtime.Gosched()
	callers := c.gather(name, me)
	batch := &quota.Batch{Account: name.account, Key: name.key, Client: c.client, History: me.history, Requests: me.requests}
	if len(callers) > 1 {
		batch.Requests = nil
		for _, caller := range callers {
			batch.Requests = append(batch.Requests, caller.requests...)
			batch.History = max(batch.History, caller.history)
		}
	}
	batch.Seq = c.take(len(batch.Requests))
	answers, err := c.send(context.Background(), batch)
	if err == nil && len(answers) != len(batch.Requests) {
		err = quota.ErrInDoubt
	}
	for _, caller := range callers {
		caller.err = err
		if err == nil {
			n := len(caller.requests)
			caller.answers, answers = answers[:n:n], answers[n:]
		}
		caller.ready <- struct{}{}
	}
}

// errCrowd is for callers whose turn did not come in time: a ledger that
// answers late must not make a crowd wait for one batch after the other.
var errCrowd = fmt.Errorf("%w: the calls before this one took too long", quota.ErrLedgerDown)

// gather takes the callers of the next batch from the queue, and sends those
// away that have waited for as long as a batch may take.
func (c *Combiner) gather(name laneName, me *caller) []*caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[name]
	callers, requests, taken := []*caller{me}, len(me.requests), 0
	for _, caller := range l.waiting {
		if !c.late(caller) {
			if requests += len(caller.requests); requests > MaxBatch {
				break
			}
			callers = append(callers, caller)
		}
		taken++
	}
	l.waiting = l.waiting[taken:]
	return callers
}

// late reports whether a caller has waited for as long as a batch may take,
// and sends it away then.
func (c *Combiner) late(caller *caller) bool {
	if time.Since(caller.since) <= c.timeout {
		return false
	}
	caller.err = errCrowd
	caller.ready <- struct{}{}
	return true
}

// next takes the first of those who wait, or ends the lane.
func (c *Combiner) next(name laneName) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[name]
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		l.waiting = l.waiting[1:]
		if !c.late(first) {
			return first
		}
	}
	delete(c.lanes, name)
	return nil
}

func (c *Combiner) take(n int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq := c.seq
	c.seq += uint64(n)
	return seq
}

func (c *Combiner) send(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	return c.core(ctx, batch)
}

func (c *Combiner) refund(me *caller) {
	for i, answer := range me.answers {
		if answer.Err == nil {
			r := &me.requests[i]
			answer.Receipt.Recorded = &quota.Recorded{Method: r.Method, Caller: r.Caller, Units: r.Units}
			c.giveUp(answer.Receipt)
		}
	}
}

// Names reports whether the combiner gave a batch its id, so that nothing but
// the combiner's core can send it again.
func (c *Combiner) Names(batch *quota.Batch) bool { return batch.Client == c.client }
