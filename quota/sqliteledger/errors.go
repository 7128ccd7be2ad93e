package sqliteledger

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// ErrNoLedger means that there is no ledger yet, and Options.MustExist forbade
// to make one.
var ErrNoLedger = errors.New("no ledger yet; the first spend makes it")

var (
	errBusy   = errors.New("another process keeps it locked")
	errClosed = errors.New("it was closed")
)

// stage is where an operation was when it failed.
type stage uint8

const (
	opening stage = iota
	working
	committing
)

// explain says what an error of the driver or of the file system means, which
// file it concerns, and what to do next.
func (l *Ledger) explain(err error, at stage) error {
	if err == nil || errors.Is(err, quota.ErrLedgerLost) || errors.Is(err, quota.ErrLedgerConfig) || errors.Is(err, ErrNoLedger) {
		return err
	}
	kind, step := quota.ErrLedgerDown, "try again"
	code := 0
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code()
	}
	switch code & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		step = "let the process that has it open finish"
	case lib.SQLITE_FULL:
		step = "free some space on its disk"
	case lib.SQLITE_IOERR:
		step = "check its disk"
		if at == committing {
			kind, step = quota.ErrInDoubt, "check its disk; the entries show what was recorded"
		}
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		kind, step = quota.ErrLedgerConfig, "name another file, or restore this one from a copy"
	case lib.SQLITE_READONLY:
		kind, step = quota.ErrLedgerConfig, "make the file and its folder writable"
		if code == lib.SQLITE_READONLY_DBMOVED {
			kind, step = quota.ErrLedgerLost, "put the file back, or open the ledger again"
		}
	case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		kind, step = quota.ErrLedgerConfig, "check that file and folder exist and are readable and writable"
	case lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		kind, step = quota.ErrLedgerConfig, "it is not as this program left it; restore it from a copy"
	}
	if code == 0 {
		switch {
		case errors.Is(err, errBusy):
			step = "let that process go on, or end it"
		case errors.Is(err, errClosed):
			step = "open it again"
		case isConfig(err):
			kind, step = quota.ErrLedgerConfig, "check the path and its permissions"
		}
	}
	return fmt.Errorf("sqlite ledger %s: %w: %w; %s", l.path, kind, err, step)
}

// misconfigured says what somebody must mend.
func (l *Ledger) misconfigured(what, step string) error {
	return fmt.Errorf("sqlite ledger %s: %w: %s; %s", l.path, quota.ErrLedgerConfig, what, step)
}

// lost says that the file is not the one that held the entries.
func (l *Ledger) lost(what, step string) error {
	return fmt.Errorf("sqlite ledger %s: %w: %s; %s", l.path, quota.ErrLedgerLost, what, step)
}

// busy reports an error that goes away when others are done.
func busy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == lib.SQLITE_BUSY || e.Code()&0xff == lib.SQLITE_LOCKED || e.Code()&0xff == lib.SQLITE_PROTOCOL)
}

// isConfig reports an error of the file system that waiting does not mend.
func isConfig(err error) bool {
	for _, e := range []error{privatefile.ErrUnsafe, fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.EROFS, syscall.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
