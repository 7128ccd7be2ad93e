// Package straced runs programs under strace in tests, which shows or changes
// their system calls.
package straced

import (
	"os"
	"os/exec"
	"testing"
)

// Command returns a program that starts its arguments with these options of
// strace and writes the trace to a file. It skips the test without strace, or
// fails it if RATION_REQUIRE_TOOLS=1.
func Command(t testing.TB, trace string, options ...string) []string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil && os.Getenv("RATION_REQUIRE_TOOLS") == "1" {
		t.Fatal("no strace on this machine, and RATION_REQUIRE_TOOLS=1; install strace")
	}
	if err != nil {
		t.Skip("no strace on this machine")
	}
	if out, err := exec.Command(path, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace on this machine: %v: %s", err, out)
	}
	return append([]string{path, "-f", "-qq", "-o", trace}, options...)
}
