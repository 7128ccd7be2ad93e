package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/quota/privatefile"
)

var (
	// ErrNoCatalog is what OpenExisting answers where no catalogue was made yet.
	ErrNoCatalog = errors.New("no catalogue yet; fetch something with ration run")

	// ErrEmptyQuery is what Search answers to a text without a letter or digit.
	ErrEmptyQuery = errors.New("nothing to search for; give at least one word")

	// ErrLocked is behind every *LockedError.
	ErrLocked = errors.New("already running")

	// ErrMoved says that a page is not the one its checkpoint waits for:
	// somebody else worked on the pass. Nothing of the page was stored.
	ErrMoved = errors.New("the checkpoint has moved under this run; hold the region's lock while fetching")
)

// The reasons of a FileError.
var (
	ErrNotCatalog = errors.New("is damaged or is not a ration catalogue; move it away or restore it, it is never overwritten")
	ErrNewer      = errors.New("was written by a newer ration; upgrade this one")
	ErrOlder      = errors.New("was written by an older ration; fetch something with ration run, which brings it up to date")
	ErrUnwritable = errors.New("cannot be opened for writing; check the owner and mode of the file and its folder")
	ErrUnsafe     = errors.New("is unsafe: another user may have chosen what is in it, or may replace it")
	ErrReplaced   = errors.New("was deleted or replaced while open; start again")
	ErrNetworkFS  = errors.New("is on a network file system, where SQLite's WAL is unsafe; put it on a local disk")
	ErrDiskFull   = errors.New("cannot grow, the disk is full; free some space")
	ErrBusy       = errors.New("is kept locked by another program; end that one")
)

// FileError says what is wrong with the catalogue's file. Reason is one of the
// errors above, for errors.Is; Cause is what SQLite or the system said, or nil.
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

// Unwrap gives the reason and, where there is one, the cause.
func (e *FileError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}

// fileError returns the FileError for what kept a file from being opened.
func fileError(path string, err error) error {
	if errors.Is(err, privatefile.ErrUnsafe) {
		return &FileError{Path: path, Reason: ErrUnsafe, Cause: err}
	}
	return &FileError{Path: path, Reason: ErrUnwritable, Cause: err}
}

// LockedError says who holds a lock. PID 0 means that the holder has not said
// who it is.
type LockedError struct {
	Name  string
	PID   int
	Host  string
	Since time.Time
}

// Error says who holds the lock, and since when.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is %v in another process; wait for it", e.Name, ErrLocked)
	}
	return fmt.Sprintf("%s is %v: pid %d on %s since %s; wait for it or end it",
		e.Name, ErrLocked, e.PID, e.Host, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap is ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// wrap names the operation, and turns what SQLite says about the file into a
// FileError. A context's end stays what it is.
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

// fileReason maps SQLite's primary result codes
// (https://www.sqlite.org/rescode.html); nil is any other error.
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
	case sqlite3.SQLITE_BUSY:
		return ErrBusy
	}
	return nil
}
