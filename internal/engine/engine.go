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
	next   func() ID // nextID
	tasks  taskPool

	mu       sync.Mutex
	accounts map[string]*Account
}

// New returns an Engine on a ledger. A nil *Options is the default.
func New(ledger Ledger, o *Options) *Engine {
	e := &Engine{ledger: ledger, client: NewClient(), accounts: map[string]*Account{}}
	if o != nil {
		e.o = *o
	}
	e.next = e.nextID
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
	spare []*task // the memory of the next queue
	busy  bool    // a task leads a round, or was told to lead the next one

	// The fields below belong to the task that leads.
	fold      *fold
	clock     clock
	decision  decision // of the round; its memory is used again
	doubtful  []ID     // records that were perhaps appended and must not count
	horizon   int64    // how far back the budgets and histories of this process look
	horizonAt int64    // when the log said so last
	isLoaded  bool     // the replica was read
	wasDown   bool     // the ledger failed since it was read last
	isFork    bool     // another process of the host has received what the log has lost
}
