// Package privatefile opens the files that decide what may be spent, or that
// hold a secret: configuration, keys, locks, ledgers, catalogues and journals.
//
// A file is opened only when no other user of the host can have chosen what is
// in it. It must be a regular file, not a symbolic link, that belongs to this
// process's user or to root, and that neither its group nor others may write
// to. The same holds for its folder, in which a sticky bit protects what is
// there. Of the folders above it, none may let another user replace what leads
// to the file. The group of a folder does not matter if a folder above it lets
// only its owner in. A group that has the number of the file's owner and no other
// member is the owner's own, and counts as the owner.
//
// TrustVariable in the environment names one further user whose files are
// trusted. On systems without numeric owners, such as Windows, only links and
// files that are not regular are refused.
//
// All functions are safe for concurrent use. What they refuse is a *Error;
// other errors are those of the file system.
package privatefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// TrustVariable is the environment variable that names, by number, one more
// user whose files are trusted as root's are: the owner of a container's bind
// mount, for example. Empty means none.
const TrustVariable = "RATION_TRUST_OWNER"

// MaxSecret is the size in bytes of the largest file that ReadSecret reads.
const MaxSecret = 64 << 10

// ReadFile returns the content of the file at path, but at most the first most bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	return read(path, most, rules{})
}

// ReadSecret returns the content of a file that holds a password or a key. In
// addition to the rules of the package, only its owner may read it, unless a
// folder above it lets only its owner in. The group of a file that belongs to
// root may read it if this process is not root's, which could not do so
// otherwise. A file of more than MaxSecret bytes is an
// error. A path in /dev/fd, or /dev/stdin, is read as it is: the caller of
// the process has opened it.
func ReadSecret(path string) ([]byte, error) {
	var data []byte
	var err error
	if path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") {
		data, err = readDescriptor(path)
	} else {
		data, err = read(path, MaxSecret+1, rules{secret: true})
	}
	if err == nil && len(data) > MaxSecret {
		clear(data)
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d KB; name a file that holds a secret only", MaxSecret>>10)}
	}
	return data, err
}

// ReadLinked is ReadFile for a public file that systems put behind symbolic
// links, such as a bundle of certificates. Each link must belong to a trusted user.
func ReadLinked(path string, most int64) ([]byte, error) {
	return read(path, most, rules{links: true})
}

func read(path string, most int64, r rules) ([]byte, error) {
	file, err := open(path, os.O_RDONLY, r)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

func readDescriptor(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, MaxSecret+1))
}

// Open opens the file at path for reading and writing, and creates it with mode
// 0600 when it is missing. Nothing is truncated.
func Open(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_CREATE, rules{})
}

// Create creates the file at path with mode 0600 and opens it for reading and
// writing. A path that exists is an fs.ErrExist, whatever it is.
func Create(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, rules{})
}

// Replace puts a file of mode 0600 with the given content in the place of path,
// whole or not at all. With sync it is on the disk when Replace returns.
func Replace(path string, content []byte, sync bool) error {
	file, err := createTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil && sync {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	if sync {
		return SyncFolder(filepath.Dir(path))
	}
	return nil
}

// Writable returns why no file can be created in a folder, or nil. It creates
// one and removes it: mode bits know nothing of read-only mounts, ACLs and root.
func Writable(folder string) error {
	file, err := createTemp(folder, ".ration-*")
	if err == nil {
		return errors.Join(file.Close(), os.Remove(file.Name()))
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to write in %s", folder)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // the name of the attempt does not help
	}
	if errors.Is(err, ErrUnsafe) {
		return err
	}
	return fmt.Errorf("nothing can be written in %s: %w", folder, err)
}

func createTemp(folder, pattern string) (*os.File, error) {
	j, err := newJudge()
	if err != nil {
		return nil, err
	}
	resolved, err := j.folder(folder)
	if err == nil {
		err = j.verdict()
	}
	if err != nil {
		return nil, err
	}
	return os.CreateTemp(resolved, pattern)
}

// MkdirAll creates the folder dir, and those above it that are missing, with
// mode 0700. A folder that is there must be safe.
func MkdirAll(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	j, err := newJudge()
	if err != nil {
		return err
	}
	there := dir
	_, err = j.folder(there)
	for errors.Is(err, fs.ErrNotExist) && there != filepath.Dir(there) {
		there = filepath.Dir(there)
		_, err = j.folder(there)
	}
	if err == nil {
		err = j.verdict()
	}
	if err != nil || there == dir {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return CheckFolder(dir) // another user may have been first, in a folder such as /tmp
}

// Check reports all that is unsafe about files that a library, such as
// SQLite, opens by their paths. It opens nothing: to close a descriptor of a
// database would drop the locks that this process holds on it. A file that is
// missing is safe where its folder is. What is safe stays so as long as only
// trusted users act, since no other user can replace it.
func Check(paths ...string) error {
	j, err := newJudge()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := j.path(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return j.verdict()
}

// CheckFolder reports what is unsafe about a folder, in which a file is to be
// opened or created.
func CheckFolder(dir string) error {
	j, err := newJudge()
	if err != nil {
		return err
	}
	if _, err := j.folder(dir); err != nil {
		return err
	}
	return j.verdict()
}

// SyncFolder puts a folder's list of names on the disk. Windows has no such call.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// open is the one place where files are opened. It checks before that what is
// there may be opened, and afterwards that this is what was opened.
func open(path string, flag int, r rules) (*os.File, error) {
	j, err := newJudge()
	if err != nil {
		return nil, err
	}
	j.rules = r
	resolved, err := j.locate(path)
	if err == nil {
		err = j.verdict()
	}
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(resolved); err == nil && flag&os.O_EXCL == 0 {
		j.file(path, info)
		if err := j.verdict(); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(resolved, flag|noFollow, 0o600)
	if err != nil {
		return nil, named(err, path)
	}
	info, err := file.Stat()
	if err == nil {
		j.file(path, info)
		err = j.verdict()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// named puts the path that the caller gave into an error of the file system.
func named(err error, path string) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: path, Err: failed.Err}
	}
	return err
}
