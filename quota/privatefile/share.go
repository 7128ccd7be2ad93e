package privatefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// share lets the group of GroupVariable write to a file of this user's, if the
// file belongs to that group. It does so for a folder too.
func (c *checker) share(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
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
