// Package engine decides calls: it folds the records of an account's log into
// what its budgets hold, and appends what it grants.
//
// An Engine has an Account for each log that its process uses. What is asked of
// an Account while one of its appends is in flight shares the next one. A round
// decides all of it at one time, with the records received so far. It then
// appends what was granted, on the condition that at most as much was appended
// meanwhile as leaves every decision right. If more was, it folds what came and
// decides again. A refusal is given only after reading what is new.
package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Options are the options of New. The zero value is the default.
type Options struct {
	// Host is the name of this host, which its records carry.
	Host string

	// TestClock says that the ledger's clock is a test's. Otherwise time passes
	// between two answers of the ledger as it does here, and a ledger's clock
	// that is more than maxHostLead ahead of this host's is not believed.
	TestClock bool

	// Replica keeps what is received, and gives it back; nil keeps nothing.
	Replica Replica

	// Restored is called when records that the ledger lacked were appended to
	// it; nil is a no-op.
	Restored func(Restoration)

	// Tries is how many appends of a round may lose against other processes
	// before its callers get ErrLedgerBusy; 0 is 200.
	Tries int
}

// Engine decides the calls of one process on one ledger. It is safe for
// concurrent use.
type Engine struct {
	ledger Ledger
	o      Options
	client uint64
	seq    atomic.Uint64

	mu       sync.Mutex
	accounts map[string]*Account
}

// New returns an Engine on a ledger. A nil *Options is the default.
func New(ledger Ledger, o *Options) *Engine {
	e := &Engine{ledger: ledger, client: NewClient(), accounts: map[string]*Account{}}
	if o != nil {
		e.o = *o
	}
	e.o.Tries = cmp.Or(e.o.Tries, 200)
	return e
}

// Account returns the log of an account.
func (e *Engine) Account(name string) *Account {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.accounts[name]
	if a == nil {
		a = &Account{engine: e, name: name, fold: newFold()}
		e.accounts[name] = a
	}
	return a
}

// Account is the log of one account, as this process has received it.
type Account struct {
	engine *Engine
	name   string

	mu    sync.Mutex
	queue []*task
	busy  bool // a task leads a round

	// The fields below belong to the task that leads.
	fold      *fold
	clock     clock
	doubtful  []ID  // records that were perhaps appended and must not count
	horizon   int64 // how far back the budgets and histories of this process look
	horizonAt int64 // when that was announced last
	isLoaded  bool  // the replica was read
}

// task is one thing that was asked of an account. It is decided in a round,
// perhaps several times.
type task struct {
	decide   func(*decision) // may add records; sets what the caller gets
	look     func(*View)     // of a task that only looks: called once, at the end of a round
	isFresh  bool            // it must be decided after a read
	isStale  bool            // it looks at what is known, whether the ledger answers or not
	requests []*Request      // of a spend
	granted  func(*fold)     // called once its records are in the log; may be nil
	err      error
	done     chan struct{} // closed when it has ended
	lead     chan struct{} // closed when it is to lead the next round

	abandoned bool           // its caller has left; guarded by Account.mu
	undo      func(*Account) // what to do then
}

func newTask(isFresh bool, decide func(*decision)) *task {
	return &task{decide: decide, isFresh: isFresh, done: make(chan struct{}), lead: make(chan struct{})}
}

// do lets a round decide a task. It returns the context's error if that ends
// before the task does; the task may then still be carried out, and undone.
func (a *Account) do(ctx context.Context, t *task) error {
	a.mu.Lock()
	a.queue = append(a.queue, t)
	isLeader := !a.busy
	a.busy = true
	a.mu.Unlock()
	if isLeader {
		close(t.lead)
	}
	for lead := t.lead; ; {
		select {
		case <-t.done:
			return t.err
		case <-lead:
			if lead = nil; ctx.Done() == nil {
				a.leadRound()
			} else {
				go a.leadRound()
			}
		case <-ctx.Done():
			if isDone := a.abandon(t); isDone {
				return t.err
			}
			return ctx.Err()
		}
	}
}

// abandon takes a task out of the queue or, if it is being decided, lets it be
// undone. It reports whether it has ended.
func (a *Account) abandon(t *task) (isDone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isClosed(t.done) {
		return true
	}
	i := slices.Index(a.queue, t)
	switch {
	case i >= 0 && isClosed(t.lead): // it leads, so another task must
		a.queue = slices.Delete(a.queue, i, i+1)
		a.handOver()
	case i >= 0:
		a.queue = slices.Delete(a.queue, i, i+1)
	default:
		t.abandoned = true
	}
	return false
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leadRound decides all that is queued, and hands over to the next task.
func (a *Account) leadRound() {
	a.mu.Lock()
	tasks := a.queue
	a.queue = nil
	a.mu.Unlock()
	a.round(context.Background(), tasks)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tasks {
		close(t.done)
		if t.abandoned && t.undo != nil && t.err == nil {
			go t.undo(a)
		}
	}
	a.handOver()
}

// handOver lets the first task in the queue lead. The caller holds a.mu.
func (a *Account) handOver() {
	if a.busy = len(a.queue) > 0; a.busy {
		close(a.queue[0].lead)
	}
}

// fail ends all tasks with an error.
func fail(tasks []*task, err error) {
	for _, t := range tasks {
		t.err = err
	}
}
