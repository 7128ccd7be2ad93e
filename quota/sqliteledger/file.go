package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/filelock"
	"github.com/ration-dev/ration/quota/privatefile"
)

// What the header of a ledger's file says.
const (
	applicationID = 0x7261746e
	schemaVersion = 4
)

// marker is the content of the lock file once there is a ledger. A ledger
// whose file then is missing or empty has been lost, and is not begun anew.
const marker = "ration ledger\n"

// connect opens the file, and makes it first when it is missing and may be made.
func (l *Ledger) connect(create bool) error {
	if privatefile.OnNetwork(filepath.Dir(l.path)) {
		return l.misconfigured("it lies on a network file system", "put it on a local disk, or share a redis ledger")
	}
	if err := l.checkFiles(); err != nil {
		return err
	}
	info, err := os.Stat(l.path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return l.misconfigured("it is no regular file", "name a file")
	case err == nil && info.Size() > 0:
		if err := l.use(); err == nil || !errors.Is(err, errEmpty) {
			return l.explain(err, opening)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return l.explain(err, opening)
	}
	if !create {
		return l.absent()
	}
	return l.explain(l.create(), opening)
}

// checkFiles refuses files that another user may have chosen, and ones that
// lie where another user may replace them. SQLite opens them by their paths
// afterwards, so what remains is what this user, root and a trusted owner do meanwhile.
func (l *Ledger) checkFiles() error {
	if info, err := os.Lstat(l.path); err == nil && info.IsDir() {
		return nil // connect says so
	}
	err := privatefile.Check(l.path, l.path+"-wal", l.path+"-shm", l.path+"-journal", l.lockPath())
	if errors.Is(err, privatefile.ErrUnsafe) {
		return fmt.Errorf("sqlite ledger %s: %w: %w", l.path, quota.ErrLedgerConfig, err)
	}
	return l.explain(err, opening)
}

// errEmpty says that a database has nothing in it yet.
var errEmpty = errors.New("empty")

// use connects to the file, which must be a ledger's; errEmpty says that it is
// none yet. It waits for a process that is making or closing it just now.
func (l *Ledger) use() error {
	for deadline := time.Now().Add(patience); ; {
		if err := l.tryUse(); !busy(err) || time.Now().After(deadline) {
			return err
		}
	}
}

func (l *Ledger) tryUse() error {
	c, err := open(l.path, l.sync)
	if err != nil {
		return err
	}
	c.script("BEGIN") // all three of one instant: another process may be making the tables just now
	objects := integer(c.value("SELECT COUNT(*) FROM sqlite_schema"))
	version, application := integer(c.value("PRAGMA user_version")), integer(c.value("PRAGMA application_id"))
	c.script("COMMIT")
	info, statErr := os.Stat(l.path)
	switch {
	case c.err != nil:
		err = c.err
	case statErr != nil:
		err = statErr
	case version == 0 && objects == 0:
		err = errEmpty
	case application != applicationID:
		err = l.misconfigured("it is the database of another program", "name another file")
	case version > schemaVersion:
		err = l.misconfigured("a newer version of this program wrote it", "upgrade this one")
	case version < schemaVersion:
		err = l.migrate(c)
	}
	if err != nil {
		c.close()
		return err
	}
	l.conn, l.seen = c, info
	return nil
}

// absent says that there is no ledger, or that there was one.
func (l *Ledger) absent() error {
	if known, err := privatefile.ReadFile(l.lockPath(), 1); err == nil && len(known) > 0 {
		return l.gone()
	}
	return fmt.Errorf("sqlite ledger %s: %w", l.path, ErrNoLedger)
}

func (l *Ledger) gone() error {
	return l.lost("there was a ledger here, and its file is missing or empty",
		"put it back, or remove "+filepath.Base(l.lockPath())+" beside it to begin with nothing spent")
}

// create makes the ledger, unless another process is quicker.
func (l *Ledger) create() error {
	if err := privatefile.MkdirAll(filepath.Dir(l.path)); err != nil {
		return err
	}
	lock, err := filelock.Open(l.lockPath())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errBusy)
	defer cancel()
	if err := lock.Lock(ctx); err != nil {
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
	return nil
}

// createLocked makes the file itself, so that it and the two that SQLite puts
// beside it are readable by their owner only. The caller holds the lock: to close a descriptor
// of a file that SQLite has open elsewhere in this process would drop its locks.
func (l *Ledger) createLocked() error {
	if info, err := l.lock.File().Stat(); err != nil {
		return err
	} else if info.Size() > 0 {
		if err := l.use(); !errors.Is(err, errEmpty) && !missing(l.path) {
			return err
		}
		return l.gone()
	}
	file, err := privatefile.Create(l.path)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := l.use(); !errors.Is(err, errEmpty) {
		return err
	}
	if err := l.lay(); err != nil {
		return err
	}
	if err := l.use(); err != nil {
		return err
	}
	return l.mark()
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// lay puts the tables into an empty file.
func (l *Ledger) lay() error {
	c, err := open(l.path, l.sync)
	if err != nil {
		return err
	}
	defer c.close()
	if mode := text(c.value("PRAGMA journal_mode = WAL")); c.err == nil && mode != "wal" {
		return l.misconfigured("its disk does not allow a write-ahead log", "put it on a local disk")
	}
	c.script("BEGIN IMMEDIATE")
	c.script(schema)
	c.script("COMMIT")
	return c.err
}

// mark notes in the lock file that there is a ledger.
func (l *Ledger) mark() error {
	info, err := l.lock.File().Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	_, err = l.lock.File().WriteAt([]byte(marker), 0)
	return err
}

// turns returns the lock file, opened when it is first needed: who only reads needs none.
func (l *Ledger) turns() (*filelock.Lock, error) {
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
	return lock, l.mark()
}

func (l *Ledger) lockPath() string { return l.path + ".lock" }

// check notices that the file was deleted, replaced or truncated: SQLite
// would go on writing to what no other process sees.
func (l *Ledger) check() error {
	info, err := os.Stat(l.path)
	const step = "put the file back, or open the ledger again to go on with what is there now"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.lost("its file was deleted while in use", step)
	case err != nil:
		return err
	case !os.SameFile(info, l.seen):
		return l.lost("another file has taken its place while in use", step)
	case info.Size() < l.seen.Size():
		return l.lost("its file became smaller while in use", step)
	}
	l.seen = info
	return nil
}
