//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/internal/files"
)

// TestRootLeavesItsFilesToAService: what root created in the folder of a user
// that it trusts belonged to root, and that user could not open it any more.
func TestRootLeavesItsFilesToAService(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can create another user's files")
	}
	const service = 4321
	dir := folder(t, 0o755)
	if err := os.Chown(dir, service, -1); err != nil {
		t.Fatal(err)
	}
	t.Setenv(files.TrustVariable, "4321")
	for _, group := range []string{"", "4330"} {
		t.Setenv(files.GroupVariable, group)
		below := filepath.Join(dir, "of"+group, "b")
		if err := files.MkdirAll(below); err != nil {
			t.Fatal(err)
		}
		if err := files.Replace(filepath.Join(below, "Replace"), nil, false); err != nil {
			t.Fatal(err)
		}
		paths := []string{filepath.Dir(below), below, filepath.Join(below, "Replace")}
		for name, create := range makers() {
			if path := filepath.Join(below, name); name != "Check" {
				if err := create(path); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				paths = append(paths, path)
			}
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != service {
				t.Errorf("%s: %v, %v; want it to belong to the service", path, info, err)
			}
		}
	}
}

func TestPipeFolderAndDeviceAreNotOpened(t *testing.T) {
	dir := folder(t, 0o700)
	pipe, below := filepath.Join(dir, "pipe"), filepath.Join(dir, "below")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Mkdir(below, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, below, "/dev/null"} {
		refused(t, path, "", "not a regular file", openers())
	}
}
