package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/internal/files"
)

var (
	// ErrNoCatalog is returned by OpenExisting if there is no catalogue.
	ErrNoCatalog = errors.New("no catalogue yet; fetch something with ration run")

	// ErrEmptyQuery is returned by Search for a text without a letter or digit.
	ErrEmptyQuery = errors.New("nothing to search for; give at least one word")

	// ErrLocked matches every *LockedError.
	ErrLocked = errors.New("already running")

	// ErrMoved is returned by Commit if the page does not follow its
	// checkpoint, because another run has advanced it.
	ErrMoved = errors.New("another run has advanced the checkpoint; hold the region's lock while fetching")
)

// The reasons of a FileError.
var (
	ErrNotCatalog = errors.New("is damaged or is not a ration catalogue; move it away or restore it, it is never " +
		"overwritten")
	ErrNewer      = errors.New("was written by a newer ration; upgrade this one")
	ErrOlder      = errors.New("was written by an older ration; fetch something with ration run, which upgrades it")
	ErrUnwritable = errors.New("cannot be opened for writing; check the owner and mode of the file and its folder")
	ErrUnsafe     = errors.New("is unsafe: another user may have written or may replace it")
	ErrReplaced   = errors.New("was deleted or replaced while open; start again")
	ErrNetworkFS  = errors.New("is on a network file system, where SQLite's WAL is unsafe; put it on a local disk")
	ErrDiskFull   = errors.New("cannot grow because the disk is full; free some space")
	ErrDisk       = errors.New("cannot be read or written; check its disk")
	ErrBusy       = errors.New("is kept locked by another program; try again later, or end that program")
)

// FileError describes a problem with the catalogue's file. Reason is one of the
// errors above; Cause is the error of SQLite or the system, or nil. errors.Is
// finds both.
type FileError struct {
	Path   string
	Reason error
	Cause  error
}

// Error names the file, the reason and the cause.
func (e *FileError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%s %v", e.Path, e.Reason)
	}
	return fmt.Sprintf("%s %v (%v)", e.Path, e.Reason, e.Cause)
}

// Unwrap returns the reason and the cause.
func (e *FileError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}

// fileError returns a FileError for a file that cannot be opened.
func fileError(path string, err error) error {
	if errors.Is(err, files.ErrUnsafe) {
		return &FileError{Path: path, Reason: ErrUnsafe, Cause: err}
	}
	return &FileError{Path: path, Reason: ErrUnwritable, Cause: err}
}

// LockedError is returned by Catalog.Lock if the lock is held. If PID is 0, the
// holder is not known yet.
type LockedError struct {
	Name  string // of the lock
	PID   int    // process that holds it
	Host  string
	Since time.Time
}

// Error names the process that holds the lock.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is %v in another process; wait for it", e.Name, ErrLocked)
	}
	return fmt.Sprintf("%s is %v: pid %d on %s since %s; wait for it or end it",
		e.Name, ErrLocked, e.PID, e.Host, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// wrap adds the operation to an error, and makes an SQLite error about the
// file a *FileError.
func (c *Catalog) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("catalog: %s: %w", op, err)
	}
	if reason := fileReason(err); reason != nil {
		err = &FileError{Path: c.path, Reason: reason, Cause: err}
	}
	return fmt.Errorf("catalog: %s: %w", op, err)
}

// fileReason returns the reason for an SQLite error, by its primary result code
// (https://www.sqlite.org/rescode.html), or nil.
func fileReason(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return nil
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrNotCatalog
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return ErrUnwritable
	case sqlite3.SQLITE_FULL:
		return ErrDiskFull
	case sqlite3.SQLITE_IOERR:
		if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // its -shm could not grow
			return ErrDiskFull
		}
		return ErrDisk
	case sqlite3.SQLITE_BUSY:
		return ErrBusy
	}
	return nil
}
