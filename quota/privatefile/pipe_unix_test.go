//go:build unix

package privatefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
