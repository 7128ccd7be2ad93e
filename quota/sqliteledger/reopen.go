package sqliteledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"modernc.org/sqlite"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// errReplaced means that the connection is to files that other processes do not
// see, or that there is no connection because the file is missing.
var errReplaced = errors.New("its file was deleted or replaced while in use")

// errMissing is wrapped by lostFile.
var errMissing = errors.New("there was a ledger here, and its file is missing or empty")

// identity is which files a connection has open. wal and shm may be nil.
type identity struct{ db, wal, shm os.FileInfo }

// identify returns the files that are at the path now.
func identify(path string) (id identity, err error) {
	if id.db, err = os.Stat(path); err != nil {
		return id, err
	}
	id.wal, _ = os.Stat(path + "-wal")
	id.shm, _ = os.Stat(path + "-shm")
	return id, nil
}

// checkReplaced returns errReplaced if the file or its -wal was deleted or
// replaced, because SQLite would continue to write where no other process
// looks, or if the file was cut: another one was copied over it.
func (l *Ledger) checkReplaced() error {
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errReplaced
	case err != nil:
		return err
	case !os.SameFile(info, l.seen.db) || isCut(info, l.seen.db):
		return errReplaced
	}
	l.seen.db = info
	if l.seen.wal == nil {
		return nil
	}
	wal, err := os.Stat(l.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(wal, l.seen.wal) {
		return errReplaced
	}
	return nil
}

// maxReopens is how often one operation reopens the file.
const maxReopens = 3

// reopening runs a transaction. If the file was replaced, it continues with the
// present one.
func (l *Ledger) reopening(ctx context.Context, run func() error) error {
	err := run()
	for range maxReopens {
		if !errors.Is(err, errReplaced) {
			return err
		}
		if err := l.holding(ctx, l.reopen); err != nil {
			return err
		}
		err = run()
	}
	return err
}

// holding runs f with the lock that other processes would open now, and without
// a transaction of this handle.
func (l *Ledger) holding(ctx context.Context, f func() error) error {
	for {
		lock, err := l.openLock()
		var release func()
		if err == nil {
			release, err = l.takeTurn(ctx, lock)
		}
		if errors.Is(err, fs.ErrNotExist) { // its folder was deleted
			return l.lostFile()
		}
		if err != nil {
			return l.callerError(ctx, err)
		}
		if l.dropDeleted(lock) {
			release() // it stays open for the callers that wait for it
			continue
		}
		defer release()
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return l.callerError(ctx, context.Cause(ctx))
		}
		defer func() { <-l.turn }()
		return l.explain(f(), opening)
	}
}

// dropDeleted drops the lock if its file was deleted, and reports whether
// it was.
func (l *Ledger) dropDeleted(lock *filelock.Lock) bool {
	mine, err := lock.File().Stat()
	present, presentErr := os.Lstat(l.lockPath())
	if err == nil && presentErr == nil && os.SameFile(mine, present) {
		return false
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.lock == lock {
		l.lock = nil
	}
	return true
}

// reopen connects to the file that is there now. The caller holds the lock.
func (l *Ledger) reopen() error {
	if l.closed {
		return errClosed
	}
	if l.conn != nil {
		if err := l.checkReplaced(); !errors.Is(err, errReplaced) {
			return err // another caller has reopened it
		}
		if err := l.replaceCut(); err != nil {
			return err
		}
		l.disconnect()
	}
	l.dropCache()
	clear(l.looked)
	present, err := identify(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && present.db.Size() == 0 {
		return l.lostFile()
	}
	if err != nil {
		return err
	}
	if err := l.removeOld(present); err != nil {
		return err
	}
	err = whileShared(func() error { return l.connect(false) })
	if errors.Is(err, fs.ErrNotExist) || err != nil && missing(l.path) { // it was deleted meanwhile
		return l.lostFile()
	}
	return err
}

// removeOld removes what belongs to the file that was replaced: SQLite would
// apply it to the present one. The caller holds the lock.
func (l *Ledger) removeOld(present identity) error {
	isReplaced := l.seen.db != nil && !os.SameFile(present.db, l.seen.db)
	hasOldWAL := present.wal != nil && os.SameFile(present.wal, l.seen.wal)
	if isReplaced && hasOldWAL {
		if err := os.Remove(l.path + "-wal"); err != nil {
			return err
		}
		hasOldWAL = false
	}
	hasOldShm := present.shm != nil && os.SameFile(present.shm, l.seen.shm)
	if hasOldShm && !hasOldWAL {
		return os.Remove(l.path + "-shm")
	}
	return nil
}

// whileShared calls f until what it opens lets this user write, for as long
// as patience.
func whileShared(f func() error) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if err := f(); !isBeingShared(err) || time.Since(began) > patience {
			return err
		}
	}
}

// reconnect opens the file again, through a connection that may write.
func (l *Ledger) reconnect() error {
	l.dropCache()
	if l.conn != nil {
		_ = l.conn.close() // it has written nothing
		l.conn = nil
	}
	return l.openFile()
}

// disconnect closes the connection to a file that was replaced, so that SQLite
// deletes none of the files that are there now.
func (l *Ledger) disconnect() {
	c := l.conn
	l.conn = nil
	c.reset()
	db, err := os.Stat(l.path)
	if err == nil && os.SameFile(db, l.seen.db) && missing(l.path+"-wal") {
		c.queryValue("PRAGMA wal_checkpoint(TRUNCATE)") // the connection still has what was in the -wal
	}
	_, _ = c.driver.(sqlite.FileControl).FileControlPersistWAL("main", 1)
	_ = c.close() // the file is no longer this ledger's
}

// leaveCut returns errReplaced, and disconnects, if err says that a file ends
// early: the connection knows another file than the one that is there.
func (l *Ledger) leaveCut(err error) error {
	if !endsEarly(err) {
		return err
	}
	l.disconnect()
	return errReplaced
}

// recreate creates the file again after it was lost, for a caller that restores
// what it held. It returns where a damaged one is kept.
func (l *Ledger) recreate(ctx context.Context) (kept string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for range maxReopens {
		if kept, err = l.tryRecreate(ctx); !isVanished(err) || !missing(l.path) {
			return kept, err
		}
	}
	return kept, err // its folder was deleted each time
}

func (l *Ledger) tryRecreate(ctx context.Context) (kept string, err error) {
	if err := privatefile.MkdirAll(filepath.Dir(l.path)); err != nil {
		return "", l.explain(err, opening)
	}
	err = l.holding(ctx, func() error {
		err := l.reopen()
		if errors.Is(err, errMissing) {
			err = l.reopen() // another process may have created it since, in a new folder
		}
		if err == nil {
			err = l.checkIntegrity()
		}
		switch {
		case isDamaged(err):
			kept, err = l.setAside()
		case errors.Is(err, errMissing):
			err = l.remove() // an empty file, too: processes that have it open continue with the new one
		default:
			return err
		}
		if err != nil {
			return err
		}
		return l.createFile()
	})
	return kept, err
}

// remove removes the files of the ledger.
func (l *Ledger) remove() error {
	for _, name := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(l.path + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// damaged ends the name under which a damaged file is kept when a restoration
// has put a new one in its place. A number follows it from the second on.
const damaged = ".damaged"

// Damaged returns the damaged files that are kept beside a ledger's, as far as
// this user can see them.
func Damaged(path string) (kept []string) {
	for n := 1; ; n++ {
		name := damagedName(path, n)
		if _, err := os.Stat(name); err != nil {
			return kept
		}
		kept = append(kept, name)
	}
}

func damagedName(path string, n int) string {
	if n == 1 {
		return path + damaged
	}
	return path + damaged + "-" + strconv.Itoa(n)
}

// setAside renames the file and its -wal, and returns the new name.
func (l *Ledger) setAside() (name string, err error) {
	if l.conn != nil {
		_ = l.conn.close() // what it could not write is lost
		l.conn = nil
	}
	l.dropCache()
	clear(l.looked)
	name = damagedName(l.path, len(Damaged(l.path))+1)
	for _, end := range []string{"", "-wal"} {
		if err := os.Rename(l.path+end, name+end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return name, l.remove()
}

// errBroken says that entries lack what came before them: another entry, their
// log or their label, of which the newest is never deleted.
var errBroken = errors.New("entries are missing between others, as in a part of an older file")

// checkIntegrity returns an error if the file is damaged. It reads all of it.
func (l *Ledger) checkIntegrity() error {
	c := l.conn
	c.reset()
	found := text(c.queryValue("PRAGMA integrity_check(1)"))
	if c.err == nil && found != "ok" {
		return l.damage(errors.New(found))
	}
	heard := text(c.queryValue("SELECT json_group_array(heard) FROM account_logs"))
	broken := c.queryRow("entries-broken")
	if c.err != nil {
		return l.explain(c.err, working)
	}
	if broken != nil {
		return l.damage(errBroken)
	}
	var all []string
	err := json.Unmarshal([]byte(heard), &all)
	for _, one := range all {
		_, malformed := decide.ParseStatements([]byte(one))
		err = cmp.Or(err, malformed)
	}
	if err != nil {
		return l.damage(err)
	}
	return nil
}

// damage returns the error of a damaged file.
func (l *Ledger) damage(found error) error {
	return &fileError{l.path, quota.ErrLedgerConfig, found, restoreDamaged, true}
}
