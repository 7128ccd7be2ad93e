package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/files"
)

// CheckState checks the state folder.
func (c *Checkup) CheckState(dir string) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := files.Makeable(dir); err != nil {
			c.failConfig("state folder %s: none there yet, and it cannot be made: %w; have it made for this user, "+
				"or name another with --state", dir, err)
			return
		}
		c.Add(OK, "", "state folder %s: none there yet, the first run makes it", dir)
	case err != nil:
		c.Fail(&client.ConfigError{Err: err})
	case !info.IsDir():
		c.failConfig("state folder %s is a file; name a folder with --state", dir)
	default:
		c.checkFolder(dir, info)
	}
}

// checkFolder checks a state folder that exists.
func (c *Checkup) checkFolder(dir string, info fs.FileInfo) {
	err := files.Writable(dir)
	switch {
	case err != nil:
		c.failConfig("state folder: %w; %s, or name another with --state", err, repair(err))
	case !files.IsPrivate(info):
		c.Add(Warning, fmt.Sprintf("chmod 700 %s", dir), "state folder %s: others may look into it (mode %04o)", dir,
			info.Mode().Perm())
	default:
		c.Add(OK, "", "state folder %s", dir)
	}
	for _, own := range ownEnds { // of the ledger and the catalogue
		c.checkFiles(filepath.Join(dir, "*.db"+own))
	}
	c.checkFiles(filepath.Join(dir, "*.db.*.lock")) // of the regions
}

// CheckReplica checks that this user may write in the replica's folder and to
// its files; an empty dir means that there is none.
func (c *Checkup) CheckReplica(dir string) {
	if dir == "" {
		return
	}
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = files.Makeable(dir)
	} else if err == nil {
		err = files.Writable(dir)
	}
	if err != nil {
		c.Add(Warning, repair(err)+", or name another with RATION_JOURNAL",
			"replica %s: %v; calls go on, but cannot be restored if the ledger forgets them", dir, err)
		return
	}
	before := len(c.Findings)
	c.checkFiles(filepath.Join(dir, "*"))
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	switch {
	case len(c.Findings) > before:
	case len(files) == 0:
		c.Add(OK, "", "replica %s: no copy of the ledger yet", dir)
	default:
		c.Add(OK, "",
			"replica %s: this host's copy of the ledger, by which it counts the allowance of when_ledger_down", dir)
	}
}

// repair returns what to do about a folder in which no file can be written.
func repair(err error) string {
	if errors.Is(err, syscall.ENOSPC) {
		return "free some space on its disk"
	}
	return "make it writable for this user"
}

// CheckLedgerFiles checks that this user may write the files of a ledger in a
// file. It must be called before the ledger is opened: closing any descriptor
// of a file that SQLite has open drops its locks.
func (c *Checkup) CheckLedgerFiles(name string) {
	path, isFile := strings.CutPrefix(name, "sqlite:")
	if !isFile {
		return
	}
	for _, own := range ownEnds {
		c.checkFiles(path + own)
	}
}

// ownEnds are what the names of the files of a database end in. What else
// begins like them, such as a backup, is not used.
var ownEnds = []string{"", "-wal", "-shm", "-journal", ".lock"}

// checkFiles checks that this user may write the files that match a pattern.
func (c *Checkup) checkFiles(pattern string) {
	paths, _ := filepath.Glob(pattern) // a folder whose name is a pattern is not checked
	for _, path := range paths {
		info, err := os.Lstat(path)
		_, wasChecked := c.checked[path]
		if err != nil || !info.Mode().IsRegular() || wasChecked {
			continue
		}
		if err = files.WritableFile(path); err != nil {
			c.failConfig("%w; give the file to the user that runs ration, with mode 0600", err)
		}
		if c.checked == nil {
			c.checked = map[string]error{}
		}
		c.checked[path] = err
	}
}
