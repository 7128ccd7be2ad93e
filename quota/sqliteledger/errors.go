package sqliteledger

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// ErrNoLedger means that there is no ledger at the path and that
// Options.MustExist is set.
var ErrNoLedger = errors.New("no ledger yet; the first spend creates it")

var (
	errBusy    = errors.New("other processes use it all the time")
	errStopped = errors.New("another process keeps it locked")
	errClosed  = errors.New("this process has closed it")
)

// phase is the phase in which an operation failed.
type phase uint8

// restoreDamaged says what to do about a file that was a ledger's.
const restoreDamaged = "the next call restores what this host's journal knows; without a journal, restore it from a copy"

const (
	opening phase = iota
	working
	committing
)

// explain wraps an error of the driver or of the file system with its kind, the
// file, and what to do.
func (l *Ledger) explain(err error, at phase) error {
	is := func(kind error) bool { return errors.Is(err, kind) }
	if err == nil || slices.ContainsFunc([]error{quota.ErrLedgerLost, quota.ErrLedgerConfig, ErrNoLedger}, is) {
		return err
	}
	kind, step := quota.ErrLedgerDown, "try again"
	code, damaged := 0, false
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code()
	}
	switch code & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		kind, step = quota.ErrLedgerBusy, "wait for the program that keeps it locked, or end it"
	case lib.SQLITE_FULL:
		step = "free some space on its disk"
	case lib.SQLITE_IOERR:
		step = "check its disk"
		if code == lib.SQLITE_IOERR_SHMSIZE { // its -shm could not grow
			step = "free some space on its disk"
		}
		if at == opening && endsEarly(err) {
			kind, step = quota.ErrLedgerLost, "put the file and its -wal back"
		}
		if at == committing {
			kind, step = quota.ErrInDoubt, "check its disk; the entries show what was recorded"
		}
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		kind, step = quota.ErrLedgerConfig, moveAway
		damaged = l.wasCreated()
	case lib.SQLITE_READONLY:
		kind, step = quota.ErrLedgerConfig, "make the file, its -wal and -shm, and its folder writable"
		if code == lib.SQLITE_READONLY_DBMOVED {
			kind, step = quota.ErrLedgerLost, "put the file back, or open the ledger again"
		}
	case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		kind, step = quota.ErrLedgerConfig, "check that file and folder exist and are readable and writable"
	case lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		kind, step = quota.ErrLedgerConfig, "it is not as this program left it; move it away, and the next call restores what this host's journal knows"
		damaged = code&0xff == lib.SQLITE_CONSTRAINT && l.wasCreated()
	}
	if damaged {
		step = restoreDamaged
	}
	if code == 0 {
		switch {
		case errors.Is(err, errBusy):
			kind, step = quota.ErrLedgerBusy, "try again later, or run fewer processes at once"
		case errors.Is(err, errStopped):
			kind, step = quota.ErrLedgerBusy, "resume that process, or end it"
		case errors.Is(err, errReplaced):
			kind, step = quota.ErrLedgerLost, "put the file back"
		case errors.Is(err, errClosed), errors.Is(err, fs.ErrClosed): // of its lock
			kind, step = quota.ErrLedgerClosed, "open it again"
		case isConfig(err):
			kind, step = quota.ErrLedgerConfig, "check the path and its permissions"
		}
	}
	return &fileError{l.path, kind, err, step, damaged}
}

// moveAway says what to do about a damaged ledger, or another program's file in
// its place. A ledger under another name would not count what was spent.
const moveAway = "move it away, and the next call restores what this host's journal knows; or, if it never was the ledger, name another file"

// fileError is an error of one of the kinds of package quota.
type fileError struct {
	path      string
	kind, err error
	step      string
	damaged   bool // a ledger that SQLite can no longer read, which is as good as lost
}

// Error says what failed and what to do.
func (e *fileError) Error() string {
	return fmt.Sprintf("sqlite ledger %s: %v: %v; %s", e.path, e.kind, e.err, e.step)
}

// Short says why the file could not be used.
func (e *fileError) Short() string { return fmt.Sprintf("sqlite ledger %s: %v", e.path, e.err) }

// Unwrap returns the kind, or two of a damaged file, and the original error.
func (e *fileError) Unwrap() []error {
	if e.damaged {
		return []error{e.kind, quota.ErrLedgerLost, e.err}
	}
	return []error{e.kind, e.err}
}

// isDamaged reports whether err says that SQLite could not read the file.
func isDamaged(err error) bool {
	e, ok := errors.AsType[*fileError](err)
	return ok && e.damaged
}

// endsEarly reports whether err says that the file or its -wal ends before what
// the other files say it holds: one of them was cut or replaced.
func endsEarly(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == lib.SQLITE_IOERR_SHORT_READ
}

// isGone reports whether err says that the file is missing or damaged, so that
// a restoration can create it again.
func isGone(err error) bool {
	return isDamaged(err) || errors.Is(err, quota.ErrLedgerLost) && errors.Is(err, errMissing)
}

// misconfigured returns a quota.ErrLedgerConfig that says what to change.
func (l *Ledger) misconfigured(what, step string) error {
	return fmt.Errorf("sqlite ledger %s: %w: %s; %s", l.path, quota.ErrLedgerConfig, what, step)
}

// busy reports whether err means that another process is using the file.
func busy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains([]int{lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL}, e.Code()&0xff)
}

// isBeingShared reports whether err may be that of a file that another member
// of the group has just created, and that is not theirs yet. SQLite creates its
// -wal and -shm each time that a first process opens the ledger.
func isBeingShared(err error) bool {
	if !privatefile.Shared() {
		return false
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return errors.Is(err, fs.ErrPermission)
	}
	kind := e.Code() & 0xff
	return kind == lib.SQLITE_CANTOPEN || kind == lib.SQLITE_READONLY && e.Code() != lib.SQLITE_READONLY_DBMOVED
}

// isConfig reports whether err is a lasting error of the file system.
func isConfig(err error) bool {
	lasting := []error{privatefile.ErrUnsafe, fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR,
		syscall.ELOOP, syscall.EROFS, syscall.ENAMETOOLONG}
	return slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) })
}
