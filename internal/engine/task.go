package engine

import (
	"context"
	"slices"
	"sync"
)

// task is one thing that was asked of an account. It is decided in a round,
// perhaps several times.
type task struct {
	decide   func(*decision) // of a task without requests: may add records; sets what the caller gets
	look     func(*View)     // of a task that only looks: called once, at the end of a round
	isFresh  bool            // it must be decided after a read
	isStale  bool            // it looks at what is known, whether the ledger answers or not
	owes     bool            // the replica has what the log may lack
	forgets  bool            // it takes the log as it is, and restores nothing
	undone   func()          // undoes what was carried out for a caller that has left; may be nil
	requests []*Request      // of a spend
	answers  []*Answer       // to these
	hasAdded bool            // it has added records to the decision that was made last
	err      error

	mu     sync.Mutex // held while decide or look runs
	isGone bool       // its caller has left: they run no more, since they write what is the caller's

	wake   chan bool // true: it is to lead the next round; false: it has ended
	isTold bool      // it was told to lead, and has not begun; so are the fields below guarded by Account.mu
	isDone bool
	isLeft bool // its caller has left before it ended
}

func newTask(isFresh bool, decide func(*decision)) *task {
	return &task{decide: decide, isFresh: isFresh, wake: make(chan bool, 1)}
}

// do lets a round decide a task. It returns the context's error if that ends
// before the task does; the task may then still be carried out, and undone.
func (a *Account) do(ctx context.Context, t *task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.Lock()
	a.queue = append(a.queue, t)
	if isLeader := !a.busy; isLeader {
		a.busy = true
		a.leadRound(ctx)
	} else {
		a.mu.Unlock()
	}
	for {
		select {
		case isLeader := <-t.wake:
			if !isLeader {
				return t.err
			}
			a.mu.Lock()
			t.isTold = false
			a.leadRound(ctx)
		case <-ctx.Done():
			if isDone := a.leave(t); isDone {
				return t.err
			}
			return ctx.Err()
		}
	}
}

// leave takes a task out of the queue or, if it is being decided, lets it be
// undone. It reports whether it has ended.
func (a *Account) leave(t *task) (isDone bool) {
	t.mu.Lock()
	t.isGone = true
	t.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.isDone {
		<-t.wake
		return true
	}
	t.isLeft = true
	if i := slices.Index(a.queue, t); i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	if t.isTold {
		a.handOver()
	}
	return false
}

// leadRound takes what is queued and decides it, in the background if the
// context can end. The caller holds a.mu, which is unlocked.
func (a *Account) leadRound(ctx context.Context) {
	tasks := a.queue
	a.queue, a.spare = a.spare, nil
	a.mu.Unlock()
	if ctx.Done() == nil {
		a.endRound(tasks)
	} else {
		go a.endRound(tasks)
	}
}

// endRound decides tasks, and hands over to the next one.
func (a *Account) endRound(tasks []*task) {
	a.round(context.Background(), tasks)
	a.mu.Lock()
	for _, t := range tasks {
		if t.isDone = true; t.isLeft && t.err == nil {
			go a.undo(t)
		}
	}
	a.mu.Unlock()
	for _, t := range tasks {
		t.wake <- false
	}
	clear(tasks)
	a.mu.Lock()
	a.spare = tasks[:0]
	a.handOver()
	a.mu.Unlock()
}

// handOver lets the first task in the queue lead. The caller holds a.mu.
func (a *Account) handOver() {
	if a.busy = len(a.queue) > 0; a.busy {
		a.queue[0].isTold = true
		a.queue[0].wake <- true
	}
}

// undo refunds what a task was granted whose caller has left, except for calls
// with ids of the caller's, which may have been asked again.
func (a *Account) undo(t *task) {
	if t.undone != nil {
		t.undone()
	}
	for _, answer := range t.answers {
		if answer != nil && answer.Refusal != nil && answer.Ticket != (ID{}) {
			_ = a.Leave(context.Background(), answer.Ticket)
		}
		for _, id := range answer.IDs {
			if id.Client == a.engine.client {
				_ = a.Settle(context.Background(), id, Amounts{}) // best effort: it stays charged
			}
		}
	}
}

// run calls decide or look, unless the caller has left.
func (t *task) run(call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isGone {
		call()
	}
}

// fail ends all tasks with an error.
func fail(tasks []*task, err error) {
	for _, t := range tasks {
		t.err = err
	}
}

// taskPool keeps tasks of spends that have ended.
type taskPool struct{ pool sync.Pool }

// get returns a task for some requests, which it copies.
func (p *taskPool) get(requests []*Request) *task {
	t, ok := p.pool.Get().(*task)
	if !ok {
		t = newTask(false, nil)
	}
	for i, r := range requests {
		if i == len(t.requests) {
			t.requests = append(t.requests, new(Request))
		}
		*t.requests[i] = *r
		t.isFresh = t.isFresh || r.ID != ID{} // another process may have asked for it
	}
	t.requests = t.requests[:len(requests)]
	t.answers = make([]*Answer, len(requests))
	return t
}

// put takes back a task of which no round knows any more.
func (p *taskPool) put(t *task) {
	if t.isLeft {
		return
	}
	*t = task{wake: t.wake, requests: t.requests}
	for _, r := range t.requests {
		*r = Request{}
	}
	p.pool.Put(t)
}
