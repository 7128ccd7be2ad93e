// A Lock is an exclusive lock on a file for the processes of
// one host. The system releases the lock when its holder dies.

package files

import (
	"context"
	"os"
	"sync"
)

// Lock is an exclusive lock on one open file. Goroutines that share a Lock
// exclude each other, as do Locks on the same file, in one process or in
// many. It is safe for concurrent use.
type Lock struct {
	file *os.File
	turn chan struct{} // has a value while the Lock is held or being acquired

	mu      sync.Mutex
	pending *request
}

// request is a wait for the file, which cannot be canceled. If its caller
// leaves, the next caller of Lock adopts it; if there is none, the file is
// unlocked again.
type request struct {
	done   chan error // buffered
	wanted bool
}

// OpenLock opens the file at path, and creates it with mode 0600 if it does not
// exist. A refusal of an unsafe file matches its ErrUnsafe.
func OpenLock(path string) (*Lock, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	return &Lock{file: file, turn: make(chan struct{}, 1)}, nil
}

// File returns the locked file. The holder of the lock may use its content, but
// must not close it.
func (l *Lock) File() *os.File { return l.file }

// TryLock reports whether it acquired the lock, without waiting.
func (l *Lock) TryLock() (bool, error) {
	select {
	case l.turn <- struct{}{}:
	default:
		return false, nil
	}
	ok, err := false, error(nil)
	if l.adopt(false) == nil {
		ok, err = tryLock(l.file)
	}
	if !ok {
		<-l.turn
	}
	return ok, err
}

// Lock waits for the lock. If ctx ends first, or has ended before, it returns
// the context's cause.
func (l *Lock) Lock(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := l.acquire(ctx)
	if err != nil {
		<-l.turn
	}
	return err
}

// Unlock releases the lock, which must be held.
func (l *Lock) Unlock() error {
	err := unlock(l.file)
	<-l.turn
	return err
}

// Close closes the file, which releases the lock.
func (l *Lock) Close() error { return l.file.Close() }

// acquire locks the file. The caller has the turn.
func (l *Lock) acquire(ctx context.Context) error {
	wait := l.adopt(true)
	if wait == nil {
		ok, err := tryLock(l.file)
		if ok || err != nil {
			return err
		}
		wait = l.request()
	}
	select {
	case err := <-wait.done:
		l.finish(wait)
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-wait.done:
		l.pending = nil
		return err
	default:
		wait.wanted = false
		return context.Cause(ctx)
	}
}

// adopt returns the request that an earlier caller left, or nil.
func (l *Lock) adopt(want bool) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending != nil && want {
		l.pending.wanted = true
	}
	return l.pending
}

func (l *Lock) finish(wait *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == wait {
		l.pending = nil
	}
}

// request waits for the file in a goroutine, since the system's wait cannot
// be interrupted.
func (l *Lock) request() *request {
	wait := &request{done: make(chan error, 1), wanted: true}
	l.mu.Lock()
	l.pending = wait
	l.mu.Unlock()
	go func() {
		err := waitLock(l.file)
		l.mu.Lock()
		defer l.mu.Unlock()
		if wait.wanted {
			wait.done <- err
			return
		}
		l.pending = nil
		if err == nil {
			_ = unlock(l.file) // no caller is left for the error
		}
	}()
	return wait
}
