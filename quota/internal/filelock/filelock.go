// Package filelock gives processes of one host turns: an exclusive lock on a
// file, which the system releases when its holder dies.
package filelock

import (
	"context"
	"os"
	"sync"

	"github.com/ration-dev/ration/quota/privatefile"
)

// Lock is an exclusive lock on one open file. Goroutines that share a Lock
// exclude each other, as do Locks on the same file, in one process or in
// many. It is safe for concurrent use.
type Lock struct {
	file *os.File
	turn chan struct{} // holds one while the Lock is held or being acquired

	mu      sync.Mutex
	pending *request
}

// request is a wait for the file that cannot be called off: whoever wants the
// Lock next takes it over, and when nobody does it is given back.
type request struct {
	done   chan error // holds one
	wanted bool
}

// Open opens the file at path, created with permissions 0600 when it is
// missing. What package privatefile refuses is a *privatefile.Error.
func Open(path string) (*Lock, error) {
	file, err := privatefile.Open(path)
	if err != nil {
		return nil, err
	}
	return &Lock{file: file, turn: make(chan struct{}, 1)}, nil
}

// File returns the locked file. Its content is free for the holder's use; only
// Close closes it.
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

// Lock waits for the lock until ctx ends, and returns its cause then. It fails at
// once when ctx has ended before.
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

// Close closes the file, and with it releases the lock.
func (l *Lock) Close() error { return l.file.Close() }

// acquire takes the file's lock. The caller has the turn.
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
		l.settle(wait)
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-wait.done: // it came just now
		l.pending = nil
		return err
	default:
		wait.wanted = false
		return context.Cause(ctx)
	}
}

// adopt returns the wait that an earlier caller left, or nil.
func (l *Lock) adopt(want bool) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending != nil && want {
		l.pending.wanted = true
	}
	return l.pending
}

func (l *Lock) settle(wait *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == wait {
		l.pending = nil
	}
}

// request waits for the file in a goroutine of its own, since the system's
// wait cannot be interrupted.
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
			_ = unlock(l.file) // nobody is left to tell
		}
	}()
	return wait
}
