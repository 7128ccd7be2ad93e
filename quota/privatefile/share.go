package privatefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// share lets others use a file that was created: the group of GroupVariable may
// write to it, if the file belongs to that group, and root gives it to the user
// of TrustVariable. It does so for a folder too.
func (c *checker) share(file *os.File) error {
	info, err := file.Stat()
	if err == nil {
		err = c.shareWithGroup(file, info)
	}
	if err == nil {
		c.give(file, info)
	}
	return err
}

// give gives a file that root has created to the user of TrustVariable, if the
// folder is that user's: a service could not open what root left there. It is
// best effort, since root may lack the right in a container.
func (c *checker) give(file *os.File, info fs.FileInfo) {
	isNew := info.IsDir() || ownerOf(info).links == 1 // a second link may be to any file
	if c.us != 0 || ownerOf(info).uid != 0 || !isNew {
		return
	}
	folder, err := os.Stat(filepath.Dir(file.Name()))
	if err != nil {
		return
	}
	if o := ownerOf(folder); o.uid != 0 && slices.Contains(c.trusted, o.uid) {
		_ = file.Chown(int(o.uid), -1)
	}
}

func (c *checker) shareWithGroup(file *os.File, info fs.FileInfo) error {
	mode := fs.FileMode(0o660)
	if info.IsDir() {
		mode = 0o770 | fs.ModeSetgid
	}
	const bits = fs.ModePerm | fs.ModeSetgid
	if o := ownerOf(info); !c.isShared(o) || o.uid != c.us || info.Mode()&bits == mode {
		return nil
	}
	return file.Chmod(mode)
}

// createShared creates a file that the group may write to, if it is the
// group's, before others can find it. It fails with fs.ErrExist if the path
// exists, and with errors.ErrUnsupported where that cannot be done in one step:
// there, open shares the file once it exists.
func (c *checker) createShared(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(c.share(file), file.Close())
	if err == nil {
		err = publish(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// makeFolders creates the folders below existing that lead to dir.
func (c *checker) makeFolders(existing, dir string) error {
	if c.group >= 0 {
		return c.makeShared(existing, dir)
	}
	below, err := filepath.Rel(existing, dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for _, name := range split(below) {
		if err != nil {
			return err
		}
		existing = filepath.Join(existing, name)
		err = c.shareFolder(existing)
	}
	return err
}

// makeShared creates the folders below existing that lead to dir. Each gets
// its name once the group may write to it, and those below inherit the group
// from it.
func (c *checker) makeShared(existing, dir string) error {
	below, err := filepath.Rel(existing, dir)
	if err != nil {
		return err
	}
	for _, name := range split(below) {
		temp, err := os.MkdirTemp(existing, "."+name+".*")
		if err != nil {
			return err
		}
		existing = filepath.Join(existing, name)
		if err = c.shareFolder(temp); err == nil {
			err = publish(temp, existing)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
		if errors.Is(err, errors.ErrUnsupported) {
			if err = os.Mkdir(existing, 0o700); err == nil {
				err = c.shareFolder(existing)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been faster
			return err
		}
	}
	return nil
}

func (c *checker) shareFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(c.share(folder), folder.Close())
}
