// Package privatefile opens the files that decide what may be spent, or that
// hold a secret: configuration, keys, locks, ledgers, catalogues and replicas.
//
// It opens a file only if no other user of the host can have written it. The
// file must be a regular file, not a symbolic link. It must belong to the user
// of this process or to root, and neither its group nor others may write to it.
// The same rules apply to its folder, unless a sticky bit protects the files in
// it, and no folder above may let another user replace the path to the file.
// The group of a folder does not matter if a folder above it admits only its
// owner. A group with the number of the file's owner and no other member counts
// as the owner.
//
// The environment variable TrustVariable names one further user whose files are
// trusted, and GroupVariable a group whose members share their files. On
// systems without numeric owners, such as Windows, only links and files that
// are not regular are refused.
//
// All functions are safe for concurrent use. A refusal is a *Error; other
// errors are those of the file system.
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

// TrustVariable is the environment variable with the number of one further user
// whose files are trusted as root's are, such as the owner of a container's
// bind mount. What root creates in that user's folders belongs to that user.
// Empty means none.
const TrustVariable = "RATION_TRUST_OWNER"

// GroupVariable is the environment variable with the number of a group that
// shares ledgers, replicas and catalogues. Files and folders of that group are
// trusted whichever member owns them, and the group may write to them.
// What this package creates in a folder of the group gets mode 0660, or 2770,
// whatever the umask is. A secret that the group can read is refused as before.
// Empty means none.
const GroupVariable = "RATION_TRUST_GROUP"

// Shared reports whether GroupVariable is set. For a moment, until its mode is
// set, other members cannot write to what SQLite creates beside a database,
// nor, on other systems than Linux, to what this package creates.
func Shared() bool { return os.Getenv(GroupVariable) != "" }

// MaxSecret is the size in bytes of the largest file that ReadSecret reads.
const MaxSecret = 64 << 10

// ReadFile returns at most the first most bytes of the file at path.
func ReadFile(path string, most int64) ([]byte, error) {
	return read(path, most, rules{})
}

// ReadSecret returns the content of a file that holds a password or a key. In
// addition to the rules of the package, only its owner may read it, unless a
// folder above it admits only its owner. If root owns the file and this process
// runs as another user, its group may read it too, since the process could not
// read it otherwise. A file of more than MaxSecret bytes is an error.
// /dev/stdin and paths in /dev/fd are not checked, since the parent process
// opened them.
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

// ReadLinked is like ReadFile, but follows symbolic links that belong to
// trusted users. It is for public files such as a bundle of certificates.
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
// 0600 if it does not exist. It does not truncate the file.
func Open(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_CREATE, rules{})
}

// OpenRead opens the file at path for reading.
func OpenRead(path string) (*os.File, error) { return open(path, os.O_RDONLY, rules{}) }

// Reader opens many files for reading. It checks each folder once, so make one
// for each look at them. After a refusal it refuses every file. It is not safe
// for concurrent use.
type Reader struct{ c *checker }

// NewReader returns a Reader. It fails if TrustVariable or GroupVariable is not
// a number.
func NewReader() (*Reader, error) {
	c, err := newChecker()
	return &Reader{c}, err
}

// Open opens the file at path for reading.
func (r *Reader) Open(path string) (*os.File, error) { return r.c.open(path, os.O_RDONLY) }

// Append opens the file at path for reading and appending, and creates it with
// mode 0600 if it does not exist. A write of one call is not mixed with those
// of other processes.
func Append(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, rules{})
}

// Create creates the file at path with mode 0600 and opens it for reading and
// writing. It fails with fs.ErrExist if path exists.
func Create(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, rules{})
}

// Replace atomically replaces the file at path with one of mode 0600 and the
// given content. With sync, the file is on the disk when Replace returns.
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

// Writable returns an error that says why no file can be written in a folder,
// or nil. It tries to write one, because mode bits do not show read-only
// mounts, ACLs and the rights of root, and a full disk still takes empty files.
func Writable(folder string) error {
	file, err := createTemp(folder, ".ration-*")
	if err == nil {
		_, err = file.Write(make([]byte, os.Getpagesize()))
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to write in %s", folder)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // the temporary name does not help
	}
	if errors.Is(err, ErrUnsafe) {
		return err
	}
	return fmt.Errorf("nothing can be written in %s: %w", folder, err)
}

// WritableFile returns an error that says why this user may not write a file
// that exists, or nil. It neither reads nor writes it.
func WritableFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// Makeable returns an error that says why a path that does not exist cannot be
// created, or nil: the nearest folder above it that exists is not writable.
func Makeable(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return Writable(folder)
		}
	}
}

func createTemp(folder, pattern string) (*os.File, error) {
	c, err := newChecker()
	if err != nil {
		return nil, err
	}
	resolved, err := c.safe(c.checkFolder(folder))
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(resolved, pattern)
	if err == nil {
		if err = c.share(file); err != nil {
			return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}
	return file, err
}

// MkdirAll creates the folder dir, and missing folders above it, with mode
// 0700. Folders that exist must be safe.
func MkdirAll(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	c, err := newChecker()
	if err != nil {
		return err
	}
	existing := dir
	_, err = c.checkFolder(existing)
	for errors.Is(err, fs.ErrNotExist) && existing != filepath.Dir(existing) {
		existing = filepath.Dir(existing)
		_, err = c.checkFolder(existing)
	}
	if _, err = c.safe(existing, err); err != nil || existing == dir {
		return err
	}
	if err := c.makeFolders(existing, dir); err != nil {
		return err
	}
	return CheckFolder(dir) // another user may have been first, in a folder such as /tmp
}

// Check reports all that is unsafe about files that a library, such as
// SQLite, opens by their paths. It opens none of them, because closing a
// descriptor of a database would drop the locks that this process holds on
// it. A missing file is safe if its folder is. Only trusted users can change
// what Check has reported.
func Check(paths ...string) error {
	c, err := newChecker()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := c.checkPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return c.err()
}

// CheckFolder reports what is unsafe about a folder for files to be opened or
// created in it.
func CheckFolder(dir string) error {
	c, err := newChecker()
	if err == nil {
		_, err = c.safe(c.checkFolder(dir))
	}
	return err
}

// IsPrivate reports whether the mode of a file or folder keeps out all users
// but its owner and, if it belongs to the group of GroupVariable, the members.
// It is true where files have no Unix mode.
func IsPrivate(info fs.FileInfo) bool {
	open := info.Mode().Perm() & 0o077
	if c, err := newChecker(); err == nil && c.isShared(ownerOf(info)) {
		open &= 0o007
	}
	return open == 0 || !hasOwners
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

// open opens all files of the package. It checks the path before, and the
// opened file afterwards.
func open(path string, flag int, r rules) (*os.File, error) {
	c, err := newChecker()
	if err != nil {
		return nil, err
	}
	c.rules = r
	return c.open(path, flag)
}

func (c *checker) open(path string, flag int) (*os.File, error) {
	resolved, err := c.safe(c.resolve(path))
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(resolved); err == nil && flag&os.O_EXCL == 0 {
		c.checkFile(path, info)
		if err := c.err(); err != nil {
			return nil, err
		}
	}
	if flag&os.O_CREATE != 0 && c.group >= 0 {
		if err := c.createShared(resolved); err == nil {
			flag &^= os.O_EXCL // it is ours
		} else if !errors.Is(err, fs.ErrExist) && !errors.Is(err, errors.ErrUnsupported) {
			return nil, withPath(err, path)
		}
	}
	file, err := os.OpenFile(resolved, flag|noFollow, 0o600)
	if err != nil {
		return nil, withPath(err, path)
	}
	info, err := file.Stat()
	if err == nil {
		c.checkFile(path, info)
		err = c.err()
	}
	if err == nil && flag&os.O_CREATE != 0 {
		err = c.share(file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// withPath sets the path in an error of the file system to the caller's.
func withPath(err error, path string) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: path, Err: failed.Err}
	}
	return err
}
