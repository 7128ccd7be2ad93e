package quota

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Wait charges call like Spend. If the call is refused, Wait waits until it can
// be granted, for at most limit. If that would take longer, or longer than the
// context's deadline allows, Wait returns the refusal at once. If limit is 0 or
// less, Wait never waits.
//
// Calls of one process that wait for the same budget are served in order of
// arrival, so that small calls cannot starve a large one. Calls of a region
// with a floor have a queue of their own. Calls of Spend and of other processes
// do not queue: they may take the units that a call is waiting for, which then
// waits again, within the same limit.
func (g *Guard) Wait(ctx context.Context, call Call, limit time.Duration) (*Grant, error) {
	return g.wait(ctx, call, limit, probing{})
}

// wait is Wait for a call that may have to probe a stop before. It returns a
// *metStop, and has not charged the call, when it has waited for the end of a
// cooldown without being a probe.
func (g *Guard) wait(ctx context.Context, call Call, limit time.Duration, by probing) (*Grant, error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	plan := g.plan(&call)
	if limit <= 0 {
		return g.spendProbing(ctx, &call, plan, by, 0)
	}
	if by.probe == nil && g.line.empty() {
		grant, err := g.spend(ctx, &call, plan, manner{})
		if !errors.Is(err, ErrRefused) || beyond(ctx, err, limit) {
			return grant, err
		}
	}
	return g.waitInLine(ctx, &call, plan, time.Now().Add(limit), by)
}

// waitInLine spends in turn until it is granted, or the wait would end after
// the deadline.
func (g *Guard) waitInLine(ctx context.Context, call *Call, plan *plan, deadline time.Time, by probing) (*Grant, error) {
	me := g.line.join(call, plan)
	defer g.line.leave(me)
	for {
		left := time.Until(deadline)
		if first := g.line.ahead(me); first != nil {
			if refusal := first.refusal(call); beyond(ctx, refusal, left) {
				return nil, refusal
			}
			err := sleep(ctx, left, first.moved)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, first.refusal(call)
			}
			if err == nil {
				err = by.metAfter(first.refused)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		grant, err := g.spendProbing(ctx, call, plan, by, left)
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || beyond(ctx, err, time.Until(deadline)) {
			return grant, err
		}
		g.line.hold(me, refused)
		if err := sleep(ctx, max(refused.RetryAfter, time.Millisecond), nil); err != nil {
			return nil, err
		}
		if err := by.metAfter(refused); err != nil {
			return nil, err
		}
	}
}

// beyond reports whether a refused call cannot be granted within limit and the
// context's deadline.
func beyond(ctx context.Context, err error, limit time.Duration) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return true
	}
	if refused.RetryAfter > limit || limit <= 0 {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < refused.RetryAfter
}

// sleep waits for d, or until wake is closed, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// line holds the waiting calls of one Guard in the order in which they came.
// Its zero value is empty.
type line struct {
	mu      sync.Mutex
	waiting []*waiter
}

type waiter struct {
	account string
	key     string
	plan    *plan

	// Under line.mu: what it waits for, and until when; nil until it was
	// refused. moved is closed when that changes, and when it leaves the line.
	refused *RefusedError
	due     time.Time
	moved   chan struct{}
}

func (l *line) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0
}

func (l *line) join(call *Call, plan *plan) *waiter {
	w := &waiter{account: call.Account, key: call.Key, plan: plan, moved: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, w)
	return w
}

func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
	close(w.moved)
}

// hold notes what w waits for; later calls on that budget wait behind it.
func (l *line) hold(w *waiter, refused *RefusedError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.refused, w.due = refused, time.Now().Add(refused.RetryAfter)
	close(w.moved)
	w.moved = make(chan struct{})
}

// aheadOf is a waiter that came first and waits for a budget that a later call
// needs.
type aheadOf struct {
	budget  string
	limit   Units
	due     time.Time
	refused *RefusedError
	moved   <-chan struct{}
}

// ahead returns the first waiter before me that waits for a budget of mine.
func (l *line) ahead(me *waiter) *aheadOf {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		if w == me {
			return nil
		}
		if w.refused == nil || w.account != me.account || w.key != me.key {
			continue
		}
		for _, charge := range me.plan.charges {
			if w.refused.Budget == "" || charge.Budget == w.refused.Budget && slices.Contains(w.plan.charges, charge) {
				return &aheadOf{charge.Budget, charge.Limit, w.due, w.refused, w.moved}
			}
		}
	}
	return nil
}

// refusal says to call that another waits first.
func (a *aheadOf) refusal(call *Call) *RefusedError {
	return &RefusedError{Account: call.Account, Key: call.Key, Budget: a.budget, Method: call.Method, Units: call.Units, Caller: call.Caller,
		Reason: ReasonQueue, Limit: a.limit, Needed: call.Units,
		RetryAt: a.refused.RetryAt, RetryAfter: max(0, time.Until(a.due))}
}
