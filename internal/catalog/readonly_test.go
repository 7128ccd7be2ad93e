//go:build unix

package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A catalogue of another user is refused by Open, not after the first page was
// paid for.
func TestOpenRefusesACatalogueThatItCannotWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "catalog.db")
	openAt(t, path, &clock{t: day0}).Close()
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	cmd := spawn(path, "write")
	if os.Getuid() == 0 {
		// Root may write to anything: the child runs as the user nobody.
		for d := dir; d != os.TempDir() && len(d) > 1; d = filepath.Dir(d) {
			os.Chmod(d, 0o755)
		}
		program, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = filepath.Join(dir, "child")
		if err := os.WriteFile(cmd.Path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = dir
	}
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), path) {
		t.Errorf("the child says %q, %v, want ErrUnwritable and the path", out, err)
	}
}
