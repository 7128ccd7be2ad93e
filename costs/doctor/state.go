package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota/privatefile"
)

// CheckState checks the state folder.
func (c *Checkup) CheckState(dir string) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeable(dir); err != nil {
			c.failConfig("state folder %s: none there yet, and it cannot be made: %w; have it made for this user, or name another with --state", dir, err)
			return
		}
		c.Add(OK, "", "state folder %s: none there yet, the first run makes it", dir)
	case err != nil:
		c.Fail(&client.ConfigError{Err: err})
	case !info.IsDir():
		c.failConfig("state folder %s is a file; name a folder with --state", dir)
	default:
		c.checkFolder(dir, info.Mode().Perm())
	}
}

// checkFolder checks a state folder that exists.
func (c *Checkup) checkFolder(dir string, mode fs.FileMode) {
	err := privatefile.Writable(dir)
	switch {
	case err != nil:
		c.failConfig("state folder: %w; make it writable, or name another with --state", err)
	case mode&0o077 != 0:
		c.Add(Warning, fmt.Sprintf("chmod 700 %s", dir), "state folder %s: others may look into it (mode %04o)", dir, mode)
	default:
		c.Add(OK, "", "state folder %s", dir)
	}
}

// makeable returns why a path that does not exist cannot be created: the nearest
// folder above it that exists is not writable.
func makeable(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return privatefile.Writable(folder)
		}
	}
}
