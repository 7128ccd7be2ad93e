package journal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// slowDisk returns a program that starts its arguments and lets each of
// their fsyncs take 300 ms longer. It skips the test without strace, or
// fails it if RATION_REQUIRE_TOOLS=1.
func slowDisk(t *testing.T) []string {
	t.Helper()
	slow := []string{"strace", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=300000"}
	path, err := exec.LookPath(slow[0])
	if err != nil && os.Getenv("RATION_REQUIRE_TOOLS") == "1" {
		t.Fatal("no strace on this machine, and RATION_REQUIRE_TOOLS=1; install strace")
	}
	if err != nil {
		t.Skip("no strace on this machine")
	}
	if out, err := exec.Command(path, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace on this machine: %v: %s", err, out)
	}
	return slow
}

// TestSlowDiskOpensTheAllowance: four processes create a ledger on a disk whose
// fsync takes 300 ms, wait for each other there, and spend exactly the limit.
func TestSlowDiskOpensTheAllowance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of forty fsyncs takes 300 ms")
	}
	slow := slowDisk(t)
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
