package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// The values in the header of a ledger's file.
const (
	applicationID = 0x7261746e
	schemaVersion = 6
)

// marker is the content of the lock file once there is a ledger. If the
// ledger's file is then missing or empty, it has been lost and is not
// created again.
const marker = "ration ledger\n"

// connect opens the file. It creates a missing file if create is set. A file
// that is deleted while it is being opened is missing, or was created again.
func (l *Ledger) connect(create bool) (err error) {
	for range maxReopens {
		if err = l.tryConnect(create); !isVanished(err) {
			return err
		}
	}
	return err
}

func (l *Ledger) tryConnect(create bool) error {
	if privatefile.OnNetwork(filepath.Dir(l.path)) {
		return l.misconfigured("it lies on a network file system", "put it on a local disk, or share a Redis ledger")
	}
	if err := l.checkFiles(); err != nil {
		return err
	}
	info, err := os.Stat(l.path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return l.misconfigured("it is not a regular file", "name a file")
	case err == nil && privatefile.IsMounted(l.path):
		return l.misconfigured("it is mounted without the files that SQLite keeps beside it", "mount its folder")
	case err == nil && privatefile.HasOtherNames(info):
		return l.misconfigured("it has several names (hard links), and SQLite keeps files beside each", "remove all names but one")
	case err == nil && info.Size() > 0:
		err := l.openFile()
		isBeingCreated := busy(err) && create && !l.wasCreated()
		if !errors.Is(err, errEmpty) && !isBeingCreated {
			return l.explain(err, opening)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return l.explain(err, opening)
	}
	if !create {
		return l.notFound()
	}
	return l.explain(l.create(), opening)
}

// isVanished reports whether err may be that of a file that was there a moment
// ago.
func isVanished(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == lib.SQLITE_CANTOPEN || e.Code() == lib.SQLITE_IOERR_FSTAT
	}
	return errors.Is(err, fs.ErrNotExist)
}

// checkFiles refuses files that another user may have written or can replace.
// SQLite opens them by their paths afterwards, so only this user, root and a
// trusted owner can replace them in between.
func (l *Ledger) checkFiles() error {
	if info, err := os.Lstat(l.path); err == nil && info.IsDir() {
		return nil // connect returns the error
	}
	err := privatefile.Check(l.path, l.path+"-wal", l.path+"-shm", l.path+"-journal", l.lockPath())
	if errors.Is(err, privatefile.ErrUnsafe) {
		return fmt.Errorf("sqlite ledger %s: %w: %w", l.path, quota.ErrLedgerConfig, err)
	}
	return l.explain(err, opening)
}

// errEmpty means that a database is empty.
var errEmpty = errors.New("empty")

// openFile opens the file, which must be a ledger's or empty (errEmpty). It
// waits for a process that is creating or closing it.
func (l *Ledger) openFile() error {
	for deadline := time.Now().Add(patience); ; {
		if err := l.tryOpenFile(); !busy(err) || time.Now().After(deadline) {
			return err
		}
	}
}

func (l *Ledger) tryOpenFile() error {
	c, err := open(l.path, l.sync)
	if err != nil {
		return err
	}
	c.script("BEGIN") // another process may be creating the tables
	objects := integer(c.queryValue("SELECT COUNT(*) FROM sqlite_schema"))
	version, application := integer(c.queryValue("PRAGMA user_version")), integer(c.queryValue("PRAGMA application_id"))
	c.script("COMMIT")
	seen, statErr := identify(l.path)
	switch {
	case c.err != nil:
		err = c.err
	case statErr != nil:
		err = statErr
	case version == 0 && objects == 0:
		err = errEmpty
	case application != applicationID:
		err = l.misconfigured("it is the database of another program", moveAway)
	case version > schemaVersion:
		err = l.misconfigured("a newer version of this program wrote it", "upgrade this one")
	case version < schemaVersion:
		err = l.migrate(c)
	}
	if err != nil {
		c.close()
		return err
	}
	l.conn, l.seen = c, seen
	return nil
}

// notFound returns the error for a missing file: there is no ledger, or its
// file was lost.
func (l *Ledger) notFound() error {
	if l.wasCreated() {
		return l.lostFile()
	}
	return fmt.Errorf("sqlite ledger %s: %w", l.path, ErrNoLedger)
}

// wasCreated reports whether there is or was a ledger.
func (l *Ledger) wasCreated() bool {
	content, err := privatefile.ReadFile(l.lockPath(), 1)
	return err == nil && len(content) > 0
}

func (l *Ledger) lostFile() error {
	return fmt.Errorf("sqlite ledger %s: %w: %w; if this host's journal knows calls on it, the next call makes a new one and restores them; else put the file back, or remove %s beside it to begin anew",
		l.path, quota.ErrLedgerLost, errMissing, filepath.Base(l.lockPath()))
}

// create creates the ledger, unless another process has.
func (l *Ledger) create() error {
	if err := privatefile.MkdirAll(filepath.Dir(l.path)); err != nil {
		return err
	}
	lock, err := filelock.Open(l.lockPath())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), maxWait, errBusy)
	defer cancel()
	if err := waitTurn(ctx, lock); err != nil {
		lock.Close()
		return err
	}
	defer lock.Unlock()
	l.lock = lock
	if err := l.createLocked(); err != nil {
		lock.Close()
		l.lock = nil
		return err
	}
	countTurn(lock)
	return nil
}

// createLocked creates the file itself instead of SQLite, so that only the
// owner can read it and SQLite's other files. The caller holds the lock,
// because closing a descriptor of a file that SQLite has open in this process
// drops its locks.
func (l *Ledger) createLocked() error {
	if !isEmpty(l.lock) {
		if err := l.openFile(); !errors.Is(err, errEmpty) && !missing(l.path) {
			return err
		}
		return l.lostFile()
	}
	return l.createFile()
}

// createFile creates the file. The caller holds the lock.
func (l *Ledger) createFile() error {
	file, err := privatefile.Create(l.path)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := l.openFile(); !errors.Is(err, errEmpty) {
		return err
	}
	if err := l.createTables(); err != nil {
		return err
	}
	if err := l.openFile(); err != nil {
		return err
	}
	return l.writeMarker()
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// createTables creates the tables in an empty file.
func (l *Ledger) createTables() error {
	c, err := open(l.path, l.sync)
	if err != nil {
		return err
	}
	defer c.close()
	if mode := text(c.queryValue("PRAGMA journal_mode = WAL")); c.err == nil && mode != "wal" {
		return l.misconfigured("its disk does not allow a write-ahead log", "put it on a local disk")
	}
	c.script("BEGIN IMMEDIATE")
	c.script(schema)
	c.script("COMMIT")
	return c.err
}

// writeMarker writes marker to the lock file.
func (l *Ledger) writeMarker() error {
	if !isEmpty(l.lock) {
		return nil
	}
	_, err := l.lock.File().WriteAt([]byte(marker), 0)
	return err
}

// openLock returns the lock, whose file is opened by the first write.
func (l *Ledger) openLock() (*filelock.Lock, error) {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.lock != nil {
		return l.lock, nil
	}
	lock, err := filelock.Open(l.lockPath())
	if err != nil {
		return nil, err
	}
	l.lock = lock
	return lock, l.writeMarker()
}

func (l *Ledger) lockPath() string { return l.path + ".lock" }
