package journal_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/ration-dev/ration/internal/straced"
)

// TestSlowDiskOpensTheAllowance: four processes create a ledger on a disk whose
// fsync takes 300 ms, wait for each other there, and spend exactly the limit.
func TestSlowDiskOpensTheAllowance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of forty fsyncs takes 300 ms")
	}
	slow := straced.Command(t, filepath.Join(t.TempDir(), "trace"), "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=300000")
	url, hits := counter(t)
	root := t.TempDir()
	var slows []*worker
	var crowd sync.WaitGroup
	for range 4 {
		w := startWorker(t, url, root, slow...)
		slows = append(slows, w)
		crowd.Go(func() { w.calls(1) })
	}
	crowd.Wait()
	w := startWorker(t, url, root)
	w.calls(484)
	w.stop()
	for _, w := range slows {
		crowd.Go(func() { w.calls(1000); w.stop() })
	}
	crowd.Wait()
	if n := hits.Load(); n != 500 {
		t.Errorf("%d calls reached the upstream; want 500", n)
	}
	unrecorded(t, fileJournal(t, root), 0)
}
