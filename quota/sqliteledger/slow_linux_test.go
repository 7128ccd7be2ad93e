package sqliteledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/internal/straced"
)

// TestSlowDiskIsDown: another process waits for its disk for longer than a
// stopped one is waited for. Its turn is waited for, and the ledger is not
// down.
func TestSlowDiskIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("each of a few fsyncs takes 1.6 s")
	}
	t.Parallel()
	path := fresh(t)
	l := open(t, path, nil)
	spend(t, l, 1, shared)
	strace := straced.Command(t, filepath.Join(t.TempDir(), "trace"), "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=1600000")
	cmd, _, lines := startTraced(t, strace, "twice", path)
	if !lines.Scan() {
		t.Fatalf("the process ended: %v", lines.Err())
	}
	awaitLocked(t, path)
	spend(t, l, 1, shared) // while the other process syncs its second call
	for lines.Scan() {
		continue
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if n := used(t, l, shared); n != 4 {
		t.Errorf("%d used; want 4", n)
	}
}

// awaitLocked waits until another process has a turn.
func awaitLocked(t *testing.T, path string) {
	t.Helper()
	lock, err := filelock.Open(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for {
		free, err := lock.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		if !free {
			return
		}
		_ = lock.Unlock()
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
