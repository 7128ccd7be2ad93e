//go:build linux && amd64

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/servers"
)

// TestSharedHosting: the 32-bit binary works within 512 MB of address space, as
// docs/deploy/shared-hosting.md says, with a file and with a Redis as ledger.
func TestSharedHosting(t *testing.T) {
	if os.Getenv("RATION_SHARED_HOSTING") == "" {
		t.Skip("compiles SQLite for another architecture, for minutes: make shared-hosting")
	}
	t.Parallel()
	home := t.TempDir()
	binary, folder := filepath.Join(home, "ration", "ration"), filepath.Join(home, "ration")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=386")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Chmod(folder, 0o700), os.Chmod(binary, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil {
		t.Skipf("no 32-bit programs here: %v: %s", err, out)
	}
	ration := func(code int, more, arguments string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", "ulimit -v 524288; umask 077; exec "+binary+" "+arguments)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "RATION_CONFIG=" + folder,
			"RATION_STATE=" + filepath.Join(folder, "state"), more}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("%s: exit code %d, want %d: %s", arguments, cmd.ProcessState.ExitCode(), code, out)
		}
		return string(out)
	}
	ration(exitDone, "", "init --host api.example.com --limit 3")
	for _, more := range []string{"", "RATION_LEDGER=" + servers.StartRedis(t).URL()} {
		ration(exitDone, more, "spend read --calls 2")
		ration(exitDone, more, "spend read")
		if said := ration(exitStopped, more, "spend read"); !strings.Contains(said, "try again at ") {
			t.Errorf("a refusal says %q", said)
		}
		ration(exitDone, more, "exec --lane cron -- true")
		if said := ration(exitDone, more, "status"); !strings.Contains(said, "hour") {
			t.Errorf("status says %q", said)
		}
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}
