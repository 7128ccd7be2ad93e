package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// create creates an empty file. It fails with fs.ErrExist if the path exists.
// Members of the group find the file once they may write to it, if the disk
// has hard links.
func (c *check) create(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	if c.group != 0 {
		temp, err := c.createTemp(path, nil, false)
		if err == nil {
			err = errors.Join(os.Link(temp, path), os.Remove(temp))
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(file.Close(), c.share(path))
	}
	return err
}

// createTemp creates a file beside the one at path, and returns its path.
func (c *check) createTemp(path string, content []byte, sync bool) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err == nil && sync {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close(), c.share(file.Name())); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// makeFolders creates a folder and those above it that are missing. A folder
// of the group gets its name once its members may write to it.
func (c *check) makeFolders(dir string) error {
	err := c.folder(dir)
	if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
		return err
	}
	if err = c.makeFolders(filepath.Dir(dir)); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*")
	if err != nil {
		return err
	}
	if err = c.share(temp); err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been faster
		return err
	}
	return c.folder(dir)
}

// share lets others use what was created: the group of GroupVariable may write
// to it, if it belongs to that group, and root gives it to the user of
// TrustVariable, if its folder is that user's. The latter is best effort, since
// root may lack the right in a container.
func (c *check) share(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o660)
	if info.IsDir() {
		mode = 0o770 | fs.ModeSetgid
	}
	if c.isShared(info) {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if user, _ := ownerOf(folder); c.us == 0 && user != 0 && slices.Contains(c.users, user) {
		_ = os.Lchown(path, int(user), -1)
	}
	return nil
}

// Writable returns an error that says why no file can be written in a folder,
// or nil. It tries to write one, because mode bits do not show read-only
// mounts, ACLs and the rights of root, and a full disk still takes empty files.
func Writable(folder string) error {
	c, err := newCheck()
	if err == nil {
		err = c.folder(folder)
	}
	var temp string
	if err == nil {
		temp, err = c.createTemp(filepath.Join(folder, "ration"), make([]byte, os.Getpagesize()), false)
	}
	if err == nil {
		err = os.Remove(temp)
	}
	if err == nil || errors.Is(err, ErrUnsafe) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to write in %s", folder)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // the temporary name does not help
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
