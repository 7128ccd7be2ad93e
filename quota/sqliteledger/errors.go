package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

var (
	errBusy     = errors.New("other processes use it all the time, or one of them is stopped")
	errClosed   = errors.New("this process has closed it")
	errReplaced = errors.New("its file was deleted or replaced while in use")
	errBroken   = errors.New("it is damaged")
)

// moveAway says what to do about a damaged ledger, or another program's file in
// its place.
const moveAway = "move it away, and the next call makes a new one of what this host's replica knows; " +
	"or, if it never was the ledger, name another file"

// explain wraps an error of the driver or of the file system with its kind, the
// file, and what to do. It returns that of a context as it is. inDoubt says
// that the transaction may have committed.
func (l *Ledger) explain(ctx context.Context, err error, inDoubt bool) error {
	if l.closing.Err() != nil && errors.Is(err, context.Canceled) {
		err = errClosed
	}
	kinds := []error{engine.ErrLedgerConfig, engine.ErrLedgerDown, engine.ErrLedgerBusy, engine.ErrLedgerClosed,
		engine.ErrInDoubt, context.Cause(ctx)}
	if err == nil || slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	step, kind := classify(err)
	if inDoubt {
		kind, step = engine.ErrInDoubt, "check its disk; the log shows what was recorded"
	}
	if errors.Is(kind, engine.ErrLedgerDown) {
		return &engine.DownError{Where: "sqlite ledger " + l.path, Err: err, Step: step}
	}
	return fmt.Errorf("sqlite ledger %s: %w: %w; %s", l.path, kind, err, step)
}

// classify returns what to do about an error, and its kind.
func classify(err error) (step string, kind error) {
	switch sqliteCode(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return "wait for the program that keeps it locked, or end it", engine.ErrLedgerBusy
	case lib.SQLITE_FULL:
		return "free some space on its disk", engine.ErrLedgerDown
	case lib.SQLITE_IOERR:
		if sqliteCode(err) == lib.SQLITE_IOERR_SHMSIZE { // its -shm could not grow
			return "free some space on its disk", engine.ErrLedgerDown
		}
		return "check its disk", engine.ErrLedgerDown
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return moveAway, engine.ErrLedgerConfig
	case lib.SQLITE_READONLY:
		return "make the file, its -wal and -shm, and its folder writable", engine.ErrLedgerConfig
	case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return "check that file and folder exist and are readable and writable", engine.ErrLedgerConfig
	case lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return "it is not as this program left it; " + moveAway, engine.ErrLedgerConfig
	}
	lasting := []error{files.ErrUnsafe, fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR,
		syscall.ELOOP, syscall.EROFS, syscall.ENAMETOOLONG}
	switch {
	case errors.Is(err, errBroken):
		return moveAway, engine.ErrLedgerConfig
	case errors.Is(err, errBusy):
		return "try again later, or run fewer processes at once", engine.ErrLedgerBusy
	case errors.Is(err, errClosed), errors.Is(err, fs.ErrClosed): // of its lock
		return "open it again", engine.ErrLedgerClosed
	case slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) }):
		return "check the path and its permissions", engine.ErrLedgerConfig
	}
	return "try again", engine.ErrLedgerDown
}

// sqliteCode returns SQLite's code of an error, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// mayHaveCommitted reports whether a COMMIT that failed with err may have
// written the transaction.
func mayHaveCommitted(err error) bool { return sqliteCode(err)&0xff == lib.SQLITE_IOERR }

// isBusy reports whether err means that another program has the file locked.
func isBusy(err error) bool {
	return slices.Contains([]int{lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL}, sqliteCode(err)&0xff)
}
