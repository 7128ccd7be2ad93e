//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/internal/files"
)

// sharing returns a folder of a group that shares its files, and of root.
func sharing(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can create another user's files")
	}
	dir := folder(t, 0o700)
	if err := errors.Join(os.Chown(dir, 0, 4330), os.Chmod(dir, 0o770|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGroupFilesAreTrustedBySharersOnly: without the variable, and with another
// group's number, the same files are refused.
func TestGroupFilesAreTrustedBySharersOnly(t *testing.T) {
	path := write(t, filepath.Join(sharing(t), "ration.db"), 0o660)
	if err := os.Chown(path, 4321, 4330); err != nil {
		t.Fatal(err)
	}
	refused(t, path, path, "others may write", openers())
	t.Setenv(files.GroupVariable, "4331")
	refused(t, path, path, "others may write", openers())
	t.Setenv(files.GroupVariable, "4330")
	open := openers()
	secret := map[string]func(string) error{"ReadSecret": open["ReadSecret"]}
	delete(open, "ReadSecret")
	for name, open := range open {
		if err := open(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused(t, path, path, "others may read this secret", secret)
	if err := os.Chmod(path, 0o662); err != nil {
		t.Fatal(err)
	}
	refused(t, path, path, "others may write", openers())
	for _, wrong := range []string{"0", "staff", "-1"} {
		t.Setenv(files.GroupVariable, wrong)
		refused(t, path, path, files.GroupVariable, openers())
	}
}

// TestAFolderOfTheGroupIsNotCalledOpen: doctor advised to shut out the members.
func TestAFolderOfTheGroupIsNotCalledOpen(t *testing.T) {
	dir := sharing(t)
	private := func() bool {
		t.Helper()
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return files.IsPrivate(info)
	}
	if private() {
		t.Error("a folder of mode 0770 is private without the variable")
	}
	t.Setenv(files.GroupVariable, "4330")
	if !private() {
		t.Error("a folder of the group is not private")
	}
	if err := os.Chmod(dir, 0o771); err != nil {
		t.Fatal(err)
	}
	if private() {
		t.Error("a folder of mode 0771 is private")
	}
}

// TestGroupDoesNotCountInASharedFolder: any user can create a file of a
// folder's group in one that is open to all, sticky or not.
func TestGroupDoesNotCountInASharedFolder(t *testing.T) {
	dir := sharing(t)
	path := write(t, filepath.Join(dir, "costs.yaml"), 0o660)
	if err := errors.Join(os.Chown(path, 4321, 4330), os.Chmod(dir, 0o777|fs.ModeSticky|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(files.GroupVariable, "4330")
	refused(t, path, path, "chmod go-w "+dir, openers())
}

// TestTheGroupCanWriteNewFiles: what is created in a folder of the group is for
// the group, whatever the umask is, and what is created elsewhere is private.
func TestTheGroupCanWriteNewFiles(t *testing.T) {
	dir := sharing(t)
	t.Setenv(files.GroupVariable, "4330")
	defer syscall.Umask(syscall.Umask(0o077))
	for name, create := range makers() {
		for folder, want := range map[string]fs.FileMode{dir: 0o660, t.TempDir(): 0o600} {
			path := filepath.Join(folder, name, "sub", "file")
			if err := files.MkdirAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			if err := create(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s: %v", name, err)
			}
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				t.Error(err)
			case info.IsDir():
				if mode := info.Mode().Perm(); mode != want|(want>>2&0o110) {
					t.Errorf("%s creates a folder of mode %o", name, mode)
				}
			case info.Mode().Perm() != want:
				t.Errorf("%s creates a file of mode %o; want %o", name, info.Mode().Perm(), want)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil ||
				info.Mode().Perm()&0o070 != want&0o060|want>>2&0o010 {
				t.Errorf("MkdirAll creates a folder of mode %v, %v", info.Mode(), err)
			}
		}
	}
}

// TestNewFilesAreSharedFromTheFirstMoment: another member that found a file or
// folder in the moment before the group could write to it was refused.
func TestNewFilesAreSharedFromTheFirstMoment(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux gives what is new its name and mode in one step")
	}
	dir := sharing(t)
	t.Setenv(files.GroupVariable, "4330")
	sub := filepath.Join(dir, "journal")
	path := filepath.Join(sub, "file")
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for name, want := range map[string]fs.FileMode{sub: 0o770, path: 0o660} {
				if info, err := os.Lstat(name); err == nil && info.Mode().Perm() != want {
					t.Errorf("%s has mode %o; want %o", name, info.Mode().Perm(), want)
					return
				}
			}
		}
	})
	for range 500 {
		if err := files.MkdirAll(sub); err != nil {
			t.Error(err)
			break
		}
		file, err := files.Append(path)
		if err != nil {
			t.Error(err)
			break
		}
		if err := errors.Join(file.Close(), os.RemoveAll(sub)); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	looking.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v; want no temporary files", left, err)
	}
}
