// Package files opens the files that decide what may be spent, or that
// hold a secret: configuration, keys, locks, ledgers, catalogues and replicas.
//
// It opens a regular file only, and no symbolic link except by ReadLinked. The
// file and its folder must belong to the user of this process or to root, and
// neither their groups nor others may write to them, unless a sticky bit
// protects the files in the folder. A group with the number of the file's owner
// counts as the owner.
// What the package creates has mode 0600, and folders 0700.
//
// The environment variable TrustVariable names one further user whose files are
// trusted, and GroupVariable a group whose members share their files. On
// systems without numeric owners, such as Windows, only links and files that
// are not regular are refused.
//
// All functions are safe for concurrent use. A refusal matches ErrUnsafe; other
// errors are those of the file system.
package files

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

// MaxSecret is the size in bytes of the largest file that ReadSecret reads.
const MaxSecret = 64 << 10

// ReadFile returns at most the first most bytes of the file at path.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// ReadLinked is like ReadFile, but follows symbolic links. A link and its
// folder must have the owners that a file and its folder must have.
func ReadLinked(path string, most int64) ([]byte, error) {
	c, err := newCheck()
	if err == nil {
		path, err = c.follow(path)
	}
	if err != nil {
		return nil, err
	}
	return ReadFile(path, most)
}

// Target returns the absolute path of a file, or if it is a symbolic link, of
// what the link leads to. Paths in the file are relative to that one's folder.
func Target(path string) (string, error) {
	info, err := os.Lstat(path)
	if isLink := err == nil && info.Mode()&fs.ModeSymlink != 0; isLink {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
	}
	return filepath.Abs(path)
}

// IsStream reports whether a path is /dev/stdin or in /dev/fd.
func IsStream(path string) bool { return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") }

// ReadSecret returns the content of a file that holds a password or a key. In
// addition to the rules of the package, only its owner may read it. If root
// owns the file and this process runs as another user, its group may read it
// too, since the process could not read it otherwise. A file of more than
// MaxSecret bytes is an error. /dev/stdin and paths in /dev/fd are not checked,
// since the parent process opened them.
func ReadSecret(path string) ([]byte, error) {
	var file *os.File
	var err error
	if IsStream(path) {
		file, err = os.Open(path)
	} else {
		file, err = openSecret(path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxSecret+1))
	if len(data) > MaxSecret {
		clear(data)
		return nil, &fs.PathError{Op: "read", Path: path,
			Err: fmt.Errorf("it has more than %d KB; name a file that holds a secret only", MaxSecret>>10)}
	}
	return data, err
}

// Open opens the file at path for reading and writing, and creates it if it
// does not exist. It does not truncate the file.
func Open(path string) (*os.File, error) { return open(path, os.O_RDWR|os.O_CREATE) }

// OpenRead opens the file at path for reading.
func OpenRead(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Append opens the file at path for reading and appending, and creates it if it
// does not exist. A write of one call is not mixed with those of other
// processes.
func Append(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
}

// Create creates the file at path and opens it for reading and writing. It
// fails with fs.ErrExist if path exists.
func Create(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func open(path string, flag int) (*os.File, error) {
	c, err := newCheck()
	if err != nil {
		return nil, err
	}
	return c.open(path, flag)
}

// openSecret opens a file that others must not read either.
func openSecret(path string) (*os.File, error) {
	c, err := newCheck()
	if err != nil {
		return nil, err
	}
	c.isSecret = true
	return c.open(path, os.O_RDONLY)
}

// open opens all files of the package. It checks the file before it opens it,
// lest that has an effect, and again once it is open.
func (c *check) open(path string, flag int) (*os.File, error) {
	err := c.folder(filepath.Dir(path))
	if err == nil && flag&os.O_CREATE != 0 {
		if err = c.create(path); flag&os.O_EXCL == 0 && errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil {
		err = c.file(path)
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, flag&^(os.O_CREATE|os.O_EXCL)|noFollow, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = c.inspect(path, info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Replace atomically replaces the file at path with one of mode 0600 and the
// given content. With sync, the file is on the disk when Replace returns.
func Replace(path string, content []byte, sync bool) error {
	c, err := newCheck()
	if err == nil {
		err = c.folder(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	temp, err := c.createTemp(path, content, sync)
	if err == nil {
		if err = os.Rename(temp, path); err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}
	if err == nil && sync {
		err = SyncFolder(filepath.Dir(path))
	}
	return err
}

// MkdirAll creates the folder dir, and missing folders above it. A folder that
// exists must be safe.
func MkdirAll(dir string) error {
	c, err := newCheck()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		err = c.makeFolders(dir)
	}
	return err
}

// Check reports all that is unsafe about files that a library, such as
// SQLite, opens by their paths. It opens none of them, because closing a
// descriptor of a database would drop the locks that this process holds on
// it. A missing file is safe if its folder is.
func Check(paths ...string) error {
	return checkAll(paths, func(_ *check, path string) (string, error) { return path, nil })
}

// CheckLinked is like Check, for files that ReadLinked reads.
func CheckLinked(paths ...string) error { return checkAll(paths, (*check).follow) }

func checkAll(paths []string, follow func(*check, string) (string, error)) error {
	c, err := newCheck()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if path, err = follow(c, path); err == nil {
			_ = c.folder(filepath.Dir(path))
			err = c.file(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrUnsafe) {
			return err
		}
	}
	return c.err()
}

// CheckFolder reports what is unsafe about a folder for files to be opened or
// created in it.
func CheckFolder(dir string) error {
	c, err := newCheck()
	if err == nil {
		err = c.folder(dir)
	}
	return err
}

// IsPrivate reports whether the mode of a file or folder keeps out all users
// but its owner and, if it belongs to the group of GroupVariable, the members.
// It is true where files have no Unix mode.
func IsPrivate(info fs.FileInfo) bool {
	others := fs.FileMode(0o077)
	if c, err := newCheck(); err == nil && c.isShared(info) {
		others = 0o007
	}
	return !hasOwners || info.Mode()&others == 0
}

// SyncFolder syncs the names in a folder to the disk. It does nothing on
// Windows, which has no such call.
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
