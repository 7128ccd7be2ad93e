package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Wait charges call like Spend. If the call is refused, Wait waits until it can
// be granted, for at most maxWait. If that would take longer, or longer than
// the context's deadline allows, Wait returns the refusal at once. If maxWait
// is 0 or less, Wait never waits.
//
// Calls that wait for the same budget are served by the priority of their lanes
// (Options.Priority), and then in order of arrival, so that small calls cannot
// starve a large one. Those of one process queue in it. The first of them has a
// ticket in the ledger while its units return within ten seconds: the calls of
// all processes, those of Spend too, must fit beside it unless they come before
// it. Tickets do not count in a budget with floors; there, calls of a region
// with a floor have a queue of their own.
func (g *Guard) Wait(ctx context.Context, call Call, maxWait time.Duration) (*Grant, error) {
	grant, _, err := g.await(ctx, g.request(ctx, call, 1), maxWait, nil, false)
	return grant, err
}

// await grants calls that are alike once no breaker that covers them holds
// them, and again when they have waited for the end of a cooldown. b may be
// nil, which holds none; reported is as in trial. The caller must pass the
// trial, which may be nil, to breakers.finish. await tells the observers.
func (g *Guard) await(ctx context.Context, r *request, maxWait time.Duration, b *breakers,
	reported bool) (grant *Grant, trial *trial, err error) {
	began := time.Now()
	defer func() {
		if maxWait <= 0 {
			began = time.Time{}
		}
		g.decided(r, began, err)
	}()
	if b == nil {
		grant, err = g.wait(ctx, r, maxWait, trialRole{})
		return grant, nil, err
	}
	for deadline := began.Add(maxWait); ; {
		tried := time.Now()
		trial = b.awaitTrial(ctx, g, r, deadline.Sub(tried), reported)
		grant, err = g.wait(ctx, r, time.Until(deadline), trialRole{b, trial})
		ended, ok := errors.AsType[*cooldownEnded](err)
		if err != nil && !ok {
			b.finish(ctx, g, trial)
			return nil, nil, err
		}
		if !ok {
			return grant, trial, nil
		}
		b.openFor(budgetID{r.Account, ended.budget, ended.key}, tried)
	}
}

// wait is SpendTogether for calls that may be the trial of a cooldown; it
// returns the first grant. If they are not, and have waited for the end of a
// cooldown, wait returns a *cooldownEnded without charging them.
func (g *Guard) wait(ctx context.Context, r *request, maxWait time.Duration, as trialRole) (*Grant, error) {
	if r.count < 1 || r.count > MaxTogether {
		return nil, fmt.Errorf("%w: %d calls together; give 1 to %d", ErrBadCall, r.count, MaxTogether)
	}
	r.left = 0 // of an earlier wait
	if maxWait > 0 || r.count > 1 {
		if err := r.check(); err != nil {
			return nil, err // before it queues behind others
		}
	}
	if maxWait <= 0 {
		return g.spendTrial(ctx, r, as)
	}
	if as.trial == nil && g.queue.empty() {
		grant, err := g.spend(ctx, r)
		if !errors.Is(err, ErrRefused) || mustGiveUp(ctx, err, maxWait) {
			return grant, err
		}
	}
	return g.waitInQueue(ctx, r, time.Now().Add(maxWait), as)
}

// setLeft sets how long the call waits at most from now on.
func (r *request) setLeft(ctx context.Context, left time.Duration) {
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	r.left = max(left, 0)
}

// leaveTimeout is how long a call that gives up tries to end its ticket, which
// ends by itself soon.
const leaveTimeout = time.Second

// leave ends the ticket of a call that was not granted.
func (g *Guard) leave(ctx context.Context, r *request) {
	if r.ticket == (engine.ID{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = g.Account(r.Account).Leave(ctx, r.ticket)
	r.ticket = engine.ID{}
	g.refusals.invalidate()
}

// waitInQueue spends when it is the turn of calls that are alike, until they
// are granted or would have to wait beyond the deadline.
func (g *Guard) waitInQueue(ctx context.Context, r *request, deadline time.Time, as trialRole) (*Grant, error) {
	isPaced := g.pace.paces(r.set)
	me := g.queue.add(r, isPaced)
	defer g.queue.remove(me)
	for {
		left := time.Until(deadline)
		if first := g.queue.blocker(me); first != nil {
			g.leave(ctx, r)
			refusal := first.refusal(r)
			if mustGiveUp(ctx, refusal, left) {
				return nil, refusal
			}
			err := sleep(ctx, left, first.changed)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, first.refusal(r)
			}
			if err == nil && time.Until(first.due) <= 0 {
				err = as.afterWait(first.refused)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if !isPaced { // which has no ticket
			r.setLeft(ctx, left)
		}
		grant, err := g.spendTrial(ctx, r, as)
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || mustGiveUp(ctx, err, time.Until(deadline)) {
			if err != nil {
				g.leave(ctx, r)
			}
			return grant, err
		}
		g.queue.setRefused(me, refused)
		if err := as.waitOut(ctx, refused); err != nil {
			g.leave(ctx, r)
			return nil, err
		}
	}
}

// waitPoll is how often a waiting call asks again, since its units may return
// early.
const waitPoll = 5 * time.Second

// waitOut waits until a refusal ends or, if that is far, for waitPoll.
func (r trialRole) waitOut(ctx context.Context, refused *RefusedError) error {
	if refused.RetryAfter > waitPoll {
		return sleep(ctx, waitPoll, nil)
	}
	if err := sleep(ctx, max(refused.RetryAfter, time.Millisecond), nil); err != nil {
		return err
	}
	return r.afterWait(refused)
}

// waitsEnded reports whether no call waits any more.
func waitsEnded(ctx context.Context) bool {
	select {
	case <-requestOptionsOf(ctx).WaitUntil:
		return true
	default:
		return false
	}
}

// mustGiveUp reports whether err is not a refusal, or one that cannot be waited
// out within maxWait and the context's deadline.
func mustGiveUp(ctx context.Context, err error, maxWait time.Duration) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || maxWait <= 0 || refused.RetryAfter > maxWait {
		return true
	}
	if waitsEnded(ctx) || refused.Reason == ReasonShare {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < refused.RetryAfter
}

// totalWaitKey is the key of an *atomic.Int64, to which sleep adds.
type totalWaitKey struct{}

// sleep returns nil after d, when wake is closed or when waits end, and
// otherwise the reason why ctx ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if total, ok := ctx.Value(totalWaitKey{}).(*atomic.Int64); ok {
		began := time.Now()
		defer func() { total.Add(int64(time.Since(began))) }()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wake:
		return nil
	case <-requestOptionsOf(ctx).WaitUntil:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitQueue holds the waiting calls of one Guard, those of a higher priority
// first, and then in order of arrival. The zero value is empty.
type waitQueue struct {
	priority func(account, lane string) int // nil: 0

	mu      sync.Mutex
	waiting []*waiter
}

type waiter struct {
	account  string
	key      string
	set      *chargeSet
	priority int
	isPaced  bool // no other call waits for it

	// These are guarded by waitQueue.mu.
	refused *RefusedError // what the call waits out; nil before it is refused
	due     time.Time     // when that ends
	changed chan struct{} // closed when refused changes and when the waiter is removed
}

func (q *waitQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
}

func (q *waitQueue) add(r *request, isPaced bool) *waiter {
	w := &waiter{isPaced: isPaced, account: r.Account, key: r.Key, set: r.set, changed: make(chan struct{})}
	if q.priority != nil {
		w.priority = q.priority(r.Account, r.Caller.Lane)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	behind := slices.IndexFunc(q.waiting, func(other *waiter) bool { return other.priority < w.priority })
	if behind < 0 {
		behind = len(q.waiting)
	}
	q.waiting = slices.Insert(q.waiting, behind, w)
	return w
}

func (q *waitQueue) remove(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(other *waiter) bool { return other == w })
	close(w.changed)
}

// setRefused sets what w waits out. Later calls on that budget wait behind w.
func (q *waitQueue) setRefused(w *waiter, refused *RefusedError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.refused = refused
	w.due = time.Now().Add(refused.RetryAfter)
	close(w.changed)
	w.changed = make(chan struct{})
}

// blocker is an earlier waiter that waits for a budget which a later
// call needs.
type blocker struct {
	budget  string
	limit   Units
	due     time.Time
	refused *RefusedError
	changed <-chan struct{}
}

// blocker returns the first earlier waiter that me has to wait behind, or nil.
func (q *waitQueue) blocker(me *waiter) *blocker {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiting {
		if w == me {
			return nil
		}
		if w.refused == nil || w.isPaced || w.account != me.account {
			continue
		}
		if w.refused.OfKey && w.key != me.key {
			continue
		}
		for _, charge := range me.set.charges {
			wholeAccount := w.refused.Budget == ""
			sameBudget := charge.Name == w.refused.Budget && slices.Contains(w.set.charges, charge)
			if wholeAccount || sameBudget {
				return &blocker{charge.Name, charge.LimitOf(me.key), w.due, w.refused, w.changed}
			}
		}
	}
	return nil
}

// refusal returns the refusal of calls that are behind b in the queue.
func (b *blocker) refusal(r *request) *RefusedError {
	refused := newRefusal(&r.Call, b.budget, ReasonQueue)
	refused.Limit, refused.OfKey = b.limit, b.refused.OfKey
	refused.Needed *= Units(r.count)
	refused.RetryAt = b.refused.RetryAt
	refused.RetryAfter = max(0, time.Until(b.due))
	return refused
}
