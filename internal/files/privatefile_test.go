package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/files"
)

// openers are all ways to open a file or to check one for a library.
func openers() map[string]func(path string) error {
	closing := func(file *os.File, err error) error {
		if err == nil {
			err = file.Close()
		}
		return err
	}
	return map[string]func(path string) error{
		"ReadFile":   func(path string) error { _, err := files.ReadFile(path, 100); return err },
		"ReadSecret": func(path string) error { _, err := files.ReadSecret(path); return err },
		"Open":       func(path string) error { return closing(files.Open(path)) },
		"Check":      func(path string) error { return files.Check(path) },
		"OpenRead":   func(path string) error { return closing(files.OpenRead(path)) },
	}
}

// makers are all ways to create a file.
func makers() map[string]func(path string) error {
	all := openers()
	for _, reads := range []string{"ReadFile", "ReadSecret", "OpenRead"} {
		delete(all, reads)
	}
	all["Create"] = func(path string) error {
		file, err := files.Create(path)
		if err == nil {
			err = file.Close()
		}
		return err
	}
	all["Replace"] = func(path string) error { return files.Replace(path, []byte("x"), true) }
	all["MkdirAll"] = files.MkdirAll
	return all
}

// folder returns a new folder of the given mode, independent of the umask.
func folder(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	above := filepath.Dir(dir) // t.TempDir closes it to other users
	if err := errors.Join(os.Chmod(filepath.Dir(above), 0o755), os.Chmod(above, 0o755), os.Mkdir(dir, 0o700),
		os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path string, mode fs.FileMode) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte("content"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused checks that every opener refuses a path and leaves its file
// untouched.
func refused(t *testing.T, path, behind, words string, openers map[string]func(string) error) {
	t.Helper()
	before, _ := os.ReadFile(behind)
	for name, open := range openers {
		err := open(path)
		if !errors.Is(err, files.ErrUnsafe) || !strings.Contains(err.Error(), words) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want ErrUnsafe in one line, with %q", name, err, words)
		}
	}
	if after, _ := os.ReadFile(behind); string(after) != string(before) {
		t.Errorf("%s holds %q; want %q", behind, after, before)
	}
}

func TestSymbolicLinkIsNotFollowed(t *testing.T) {
	dir := folder(t, 0o700)
	target := write(t, filepath.Join(dir, "target"), 0o600)
	link, dangling, nested := filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "nested")
	err := errors.Join(os.Symlink("target", link), os.Symlink(filepath.Join(dir, "none"), dangling),
		os.Symlink(link, nested))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dangling, nested} {
		refused(t, path, target, "symbolic link", openers())
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a file was created behind a dangling link")
	}
}

func TestFileThatOthersMayWriteIsRefused(t *testing.T) {
	dir := folder(t, 0o700)
	for mode, open := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o620: false, 0o602: false, 0o660: false,
		0o666: false, 0o777: false} {
		path := write(t, filepath.Join(dir, "file"), mode)
		if open || mode&0o007 == 0 && os.Getuid() != 0 { // the group may be this user's own
			if err := files.Check(path); open && err != nil {
				t.Errorf("mode %04o: %v", mode, err)
			}
			continue
		}
		refused(t, path, path, "chmod go-w "+path, openers())
	}
}

func TestFileInAFolderThatOthersMayWriteIsRefused(t *testing.T) {
	for mode, open := range map[fs.FileMode]bool{0o700: true, 0o755: true, 0o777 | fs.ModeSticky: true, 0o777: false,
		0o733: false, 0o773: false} {
		dir := folder(t, mode)
		path := write(t, filepath.Join(dir, "file"), 0o600)
		if !open {
			refused(t, path, path, "chmod go-w "+dir, openers())
			refused(t, filepath.Join(dir, "new"), dir, "chmod go-w "+dir, makers())
			continue
		}
		for name, open := range openers() {
			if err := open(path); err != nil {
				t.Errorf("folder %v, %s: %v", mode, name, err)
			}
		}
	}
}

// One line names everything that is unsafe, with one command that repairs it.
func TestSharedCloneIsRefusedInOneLine(t *testing.T) {
	dir := folder(t, 0o777)
	one, two := write(t, filepath.Join(dir, "costs.yaml"), 0o666), write(t, filepath.Join(dir, "it's.yaml"), 0o666)
	err := files.Check(one, two)
	if err == nil || strings.Count(err.Error(), "; run chmod go-w ") != 1 || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v; want one line with one command", err)
	}
	_, command, _ := strings.Cut(err.Error(), "; run ")
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v, %s", command, err, out)
	}
	if err := files.Check(one, two); err != nil {
		t.Errorf("after %s: %v", command, err)
	}
}

func TestSecretThatOthersMayReadIsRefused(t *testing.T) {
	dir := folder(t, 0o755)
	for mode, open := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false,
		0o444: false} {
		path := write(t, filepath.Join(dir, "key"), mode)
		data, err := files.ReadSecret(path)
		if open && (err != nil || string(data) != "content") || !open &&
			(!errors.Is(err, files.ErrUnsafe) || !strings.Contains(err.Error(), "chmod go-rwx "+path)) {
			t.Errorf("mode %04o: %q, %v", mode, data, err)
		}
		if _, err := files.ReadFile(path, 100); err != nil {
			t.Errorf("mode %04o: %v; want it readable as a file without secrets", mode, err)
		}
	}
	long := write(t, filepath.Join(dir, "long"), 0o600)
	if err := os.Truncate(long, files.MaxSecret+1); err != nil {
		t.Fatal(err)
	}
	if data, err := files.ReadSecret(long); err == nil || len(data) > files.MaxSecret+1 {
		t.Errorf("a secret of %d bytes was read", len(data))
	}
}

// A secret may come from a descriptor that the shell opened: <(pass show key).
func TestASecretMayComeFromADescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.WriteString("s3cret")
	w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if data, err := files.ReadSecret(name); err != nil || string(data) != "s3cret" {
		t.Errorf("%s: %q, %v", name, data, err)
	}
}

// Paths may go through links, such as /var on macOS.
func TestAFolderMayBeBehindALink(t *testing.T) {
	dir := folder(t, 0o700)
	path, link := write(t, filepath.Join(dir, "file"), 0o600), filepath.Join(filepath.Dir(dir), "link")
	loop := filepath.Join(filepath.Dir(dir), "loop")
	if err := errors.Join(os.Symlink("./d/../d", link), os.Symlink("loop", loop)); err != nil {
		t.Fatal(err)
	}
	for name, open := range openers() {
		if err := open(filepath.Join(link, "file")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := open(filepath.Join(loop, "file")); err == nil {
			t.Errorf("%s: a loop of links leads somewhere", name)
		}
	}
	linked := filepath.Join(dir, "ca.pem")
	if err := os.Symlink("../link/file", linked); err != nil {
		t.Fatal(err)
	}
	if data, err := files.ReadLinked(linked, 100); err != nil || string(data) != "content" {
		t.Errorf("a linked bundle: %q, %v", data, err)
	}
	open := folder(t, 0o777)
	if err := os.Symlink(path, filepath.Join(open, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := files.ReadLinked(filepath.Join(open, "link"), 100); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("a link that others may replace: %v", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := files.ReadLinked(linked, 100); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("a linked bundle that others may write to: %v", err)
	}
}

// New files are private to their owner, independent of the umask.
func TestNewFilesArePrivate(t *testing.T) {
	dir := filepath.Join(folder(t, 0o755), "a", "b")
	if err := files.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, create := range makers() {
		path := filepath.Join(dir, name)
		if err := create(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(path); name != "Check" && (err != nil || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(filepath.Dir(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want 0700", info, err)
	}
	if file, err := files.Create(filepath.Join(dir, "Open")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that is there: %v, %v", file, err)
	}
	for name, open := range map[string]func(string) error{"ReadFile": openers()["ReadFile"],
		"ReadSecret": openers()["ReadSecret"]} {
		if err := open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a missing file: %v", name, err)
		}
	}
	if err := files.Check(filepath.Join(dir, "none"), filepath.Join(dir, "no", "folder")); err != nil {
		t.Errorf("Check of missing files: %v", err)
	}
}

// TestFileOfAnotherUserIsRefused needs root to create such a file. As another
// user it tests that root's files are trusted.
func TestFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		if _, err := files.ReadFile("/etc/passwd", 1<<20); err != nil && runtime.GOOS == "linux" {
			t.Errorf("root's file: %v", err)
		}
		return
	}
	const stranger = 4321
	dir := folder(t, 0o777|fs.ModeSticky)
	path := write(t, filepath.Join(dir, "costs.yaml"), 0o600)
	theirs := filepath.Join(dir, "theirs")
	err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(path, stranger, stranger),
		os.Chown(theirs, stranger, stranger))
	if err != nil {
		t.Fatal(err)
	}
	below := write(t, filepath.Join(theirs, "regions.yaml"), 0o600)
	for _, path := range []string{path, below} {
		refused(t, path, path, "user 4321", openers())
	}
	t.Setenv(files.TrustVariable, "4321")
	for name, open := range openers() {
		for _, path := range []string{path, below} {
			if err := open(path); err != nil {
				t.Errorf("%s of a trusted user's file: %v", name, err)
			}
		}
	}
	t.Setenv(files.TrustVariable, "ci")
	refused(t, path, path, files.TrustVariable, openers())
}
