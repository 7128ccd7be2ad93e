package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/files"
)

func openLock(t *testing.T, path string) *files.Lock {
	t.Helper()
	l, err := files.OpenLock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestALockHasOneHolderAtATime counts without a race while goroutines share
// three Locks on one file.
func TestALockHasOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var wg sync.WaitGroup
	inside, most, total := 0, 0, 0 // guarded by the file only; the race detector sees one process's locks through mu
	var mu sync.Mutex
	for range 3 {
		l := openLock(t, path)
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if err := l.Lock(t.Context()); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					inside, total = inside+1, total+1
					most = max(most, inside)
					mu.Unlock()
					mu.Lock()
					inside--
					mu.Unlock()
					l.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if most != 1 || total != 3*8*50 {
		t.Errorf("%d inside at once, %d in all; want 1 and 1200", most, total)
	}
}

// TestACanceledWaitKeepsNoLock: a context ends a wait; the lock that the wait
// then acquires is released, or goes to the next waiter.
func TestACanceledWaitKeepsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holder, other := openLock(t, path), openLock(t, path)
	why := errors.New("why")
	leave := func() {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, why)
		defer cancel()
		if err := other.Lock(ctx); !errors.Is(err, why) {
			t.Fatalf("%v; want the context's cause", err)
		}
	}
	for range 20 {
		if err := holder.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		leave()
		leave() // there is only one wait
		if ok, err := other.TryLock(); ok || err != nil {
			t.Fatalf("%t, %v; want it not to be had", ok, err)
		}
		holder.Unlock()
		if err := holder.Lock(t.Context()); err != nil { // given back
			t.Fatal(err)
		}
		leave()
		done := make(chan error)
		go func() { done <- other.Lock(t.Context()) }() // taken over
		holder.Unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if ok, err := holder.TryLock(); ok || err != nil {
			t.Fatalf("%t, %v; want it held", ok, err)
		}
		other.Unlock()
	}
	if ok, err := holder.TryLock(); !ok || err != nil {
		t.Fatalf("%t, %v; want it free", ok, err)
	}
	leave()
	other.Close()
	holder.Close()
	if ok, err := openLock(t, path).TryLock(); !ok || err != nil {
		t.Fatalf("%t, %v; want it free once all closed it", ok, err)
	}
}

// TestALockFileIsPrivateAndNoLink creates a private file and follows no link.
func TestALockFileIsPrivateAndNoLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "lock"), filepath.Join(dir, "link")
	info, err := openLock(t, path).File().Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want 0600", info, err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := files.OpenLock(link); err == nil {
		t.Error("opened a symbolic link")
	}
}
