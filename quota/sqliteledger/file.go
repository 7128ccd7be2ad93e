package sqliteledger

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

// The values in the header of a ledger's file. Versions up to 6 were those of
// another format.
const (
	applicationID = 0x7261746e
	schemaVersion = 7
)

// unfinished ends the name of a file until it has its tables.
const unfinished = ".new"

// fileSet is the files of a ledger; wal and shm are nil if they are missing.
type fileSet struct{ db, wal, shm os.FileInfo }

// identify returns the files that are at the path now.
func identify(path string) (f fileSet, err error) {
	if f.db, err = os.Stat(path); err != nil {
		return f, err
	}
	f.wal, _ = os.Stat(path + "-wal")
	f.shm, _ = os.Stat(path + "-shm")
	return f, nil
}

// same reports whether both are the same files.
func (f *fileSet) same(other *fileSet) bool {
	return isSame(f.db, other.db) && isSame(f.wal, other.wal) && isSame(f.shm, other.shm)
}

// isSame reports whether both are the same file, or both are missing.
func isSame(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b)
}

func lockPath(path string) string { return path + ".lock" }

func openLock(path string) (*files.Lock, error) {
	if err := files.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return files.OpenLock(lockPath(path))
}

// isAt reports whether an open file is the one at a path.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	present, err := os.Lstat(path)
	return err == nil && os.SameFile(open, present)
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// isCurrent reports whether l.writer has the files open that are at the path.
func (l *Ledger) isCurrent() bool { return l.writer != nil && l.writer.isCurrent(l.path) }

// openFiles lets l.writer be a connection to the file that is at the path. It
// creates a file that is missing or empty. The caller has the turn and holds
// the lock.
func (l *Ledger) openFiles() error {
	if l.isCurrent() {
		return nil
	}
	l.lockDeleted = !isAt(l.lock.File(), lockPath(l.path))
	if err := files.MkdirAll(filepath.Dir(l.path)); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	if l.writer != nil {
		if err := l.leaveReplaced(); err != nil {
			return err
		}
	}
	info, err := os.Stat(l.path)
	if isMissing(l.path) || err == nil && info.Size() == 0 {
		err = l.create()
	}
	if err != nil {
		return err
	}
	c, err := open(l.path, "rw", l.sync)
	if err != nil {
		return err
	}
	if err := l.checkFormat(c); err != nil {
		_ = c.close()
		return err
	}
	l.writer = c
	return nil
}

// check refuses files that another user may have written or can replace, and
// those that SQLite cannot use safely.
func (l *Ledger) check() error {
	if files.OnNetwork(filepath.Dir(l.path)) {
		return l.misconfigured("it is on a network file system",
			"put it on a local disk, or share a Redis or Postgres ledger")
	}
	info, err := os.Lstat(l.path)
	if err == nil && info.IsDir() {
		return l.misconfigured("it is not a regular file", "name a file")
	}
	if err := files.Check(l.path, l.path+"-wal", l.path+"-shm", l.path+"-journal", lockPath(l.path)); err != nil {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case files.IsMounted(l.path):
		return l.misconfigured("it is mounted without the files that SQLite keeps beside it", "mount its folder")
	case files.HasOtherNames(info):
		return l.misconfigured("it has several names (hard links), and SQLite keeps files beside each",
			"remove all names but one")
	}
	return nil
}

// leaveReplaced closes the connection when one of its files is gone or was
// replaced. It removes the -wal and -shm of a file that was replaced, which
// SQLite would apply to the new one.
func (l *Ledger) leaveReplaced() error {
	c := l.writer
	present, _ := identify(l.path)
	isReplaced := !isSame(present.db, c.seen.db)
	switch {
	case !isReplaced && present.db.Size() > 0 && present.db.Size() < c.seen.db.Size():
		return l.misconfigured("another file was copied over it while it was in use",
			"end the programs that use it, remove its -wal and -shm, and copy that file again")
	case !isReplaced && present.wal == nil:
		_, _ = c.value("PRAGMA wal_checkpoint(TRUNCATE)") // the connection still has what was in the -wal
	}
	l.writer = nil
	_ = c.close() // what it could not write is gone
	if isReplaced && present.wal != nil && isSame(present.wal, c.seen.wal) {
		return l.remove("-wal", "-shm")
	}
	return nil
}

// remove removes those of the ledger's files that exist.
func (l *Ledger) remove(suffixes ...string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(l.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// create creates the file instead of SQLite, so that only the owner can read it
// and SQLite's other files. The caller holds the lock.
func (l *Ledger) create() error {
	if err := l.remove("", "-wal", "-shm", unfinished); err != nil { // of a file that was deleted or emptied
		return err
	}
	temp := l.path + unfinished
	file, err := files.Create(temp)
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = l.createTables(temp)
	}
	if err == nil {
		err = os.Rename(temp, l.path)
	}
	if err == nil && l.sync == Full {
		err = files.SyncFolder(filepath.Dir(l.path))
	}
	return err
}

func (l *Ledger) createTables(path string) error {
	c, err := open(path, "rw", Full)
	if err != nil {
		return err
	}
	err = c.script(fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		schema, applicationID, schemaVersion))
	var mode driver.Value
	if err == nil {
		mode, err = c.value("PRAGMA journal_mode = WAL")
	}
	if err == nil && mode != "wal" {
		err = l.misconfigured("its disk does not allow a write-ahead log", "put it on a local disk")
	}
	return errors.Join(err, c.close())
}

// checkFormat refuses a file that is not a ledger of this version.
func (l *Ledger) checkFormat(c *conn) error {
	application, err := c.value("PRAGMA application_id")
	version, versionErr := c.value("PRAGMA user_version")
	switch version := integer(version); {
	case err != nil || versionErr != nil:
		return errors.Join(err, versionErr)
	case integer(application) != applicationID:
		return l.misconfigured("it is the database of another program", moveAway)
	case version < schemaVersion:
		return l.misconfigured("an earlier version of this program wrote it",
			"run ration ledger copy to copy it to a new ledger")
	case version > schemaVersion:
		return l.misconfigured("a newer version of this program wrote it", "upgrade this one")
	}
	return nil
}

// misconfigured returns an ErrLedgerConfig that says what to change.
func (l *Ledger) misconfigured(what, step string) error {
	return fmt.Errorf("sqlite ledger %s: %w: %s; %s", l.path, engine.ErrLedgerConfig, what, step)
}
