//go:build unix

package privatefile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/quota/privatefile"
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
	t.Setenv(privatefile.TrustVariable, "4321")
	for _, group := range []string{"", "4330"} {
		t.Setenv(privatefile.GroupVariable, group)
		below := filepath.Join(dir, "of"+group, "b")
		if err := privatefile.MkdirAll(below); err != nil {
			t.Fatal(err)
		}
		if err := privatefile.Replace(filepath.Join(below, "Replace"), nil, false); err != nil {
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
	t.Setenv(privatefile.GroupVariable, "")
	other := write(t, filepath.Join(folder(t, 0o755), "other"), 0o600)
	linked := filepath.Join(dir, "linked")
	if err := os.Link(other, linked); err != nil {
		t.Fatal(err)
	}
	file, err := privatefile.Open(linked)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := os.Stat(other); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("root's file with a second link there: %v, %v; want it to stay root's", info, err)
	}
}
