// Package sqliteledger implements a ledger in a SQLite file that the processes
// of one host share.
//
// The file has two tables. Each log is one row of heads, and each of its
// batches one row of batches. A person looks at it with ration log, or with
//
//	sqlite3 ration.db "SELECT account, position, datetime(newest/1e6, 'unixepoch') FROM heads"
//	sqlite3 ration.db "SELECT position, at, hex(data) FROM batches WHERE log = 1"
//
// The file is in WAL mode. An append is one immediate transaction, which is
// synced to the disk before Append returns unless Options.Sync says otherwise.
// Reads use connections of their own and do not wait for appends. Three files
// accompany the ledger's: SQLite's -wal and -shm, and a .lock with which
// processes take turns, because SQLite's own waiting is unfair: of 8 processes,
// the slowest got 0 to 19 % of what the fastest got. Only their owner can read
// the four files.
//
// If the file is deleted while it is in use, the next append creates it again,
// without the logs. If it is replaced, such as by an older copy, the next
// append continues with the new one. An append to a file that is gone is never
// acknowledged.
package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

// Sync is how durable an append is.
type Sync uint8

const (
	// Full survives a power loss: every append waits for the disk.
	Full Sync = iota
	// Normal survives the death of the process, but a power loss may lose the
	// last appends. It is about ten times as fast as Full.
	Normal
)

// String returns the value of SQLite's synchronous pragma.
func (s Sync) String() string {
	if s == Normal {
		return "NORMAL"
	}
	return "FULL"
}

// Options configures Open. A nil *Options is the default.
type Options struct {
	// Now is the ledger's clock, for tests; nil is time.Now.
	Now func() time.Time
	// Sync is how durable an append is; the zero value is Full.
	Sync Sync
	// MustExist makes Open fail with ErrNoLedger instead of creating a ledger.
	MustExist bool
}

// ErrNoLedger means that Options.MustExist is set and there is no ledger at
// the path.
var ErrNoLedger = errors.New("no ledger yet; the first append creates it")

const (
	// maxWait is how long a caller waits for its turn.
	maxWait = 10 * time.Second
	// patience is how long a caller waits for a program that locks the file and
	// does not take turns.
	patience = time.Second
	// maxReaders is how many reads of one Ledger run at a time.
	maxReaders = 4
	// maxReopens is how often one call opens a file that is replaced meanwhile.
	maxReopens = 3
)

// Ledger is an engine.Ledger in a file. It is safe for concurrent use. The file
// does not shrink, but what is trimmed makes room for new batches.
type Ledger struct {
	path string // absolute
	sync Sync
	now  func() time.Time
	real bool

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	closed  atomic.Bool

	turn        chan struct{} // has a value while the fields below are in use
	lock        *files.Lock
	lockDeleted bool  // the next turn opens the present one
	writer      *conn // nil until the files are opened

	readers chan *conn // maxReaders of them; nil is to be opened
}

var _ engine.Ledger = (*Ledger)(nil)

// Open opens the ledger in the file at path. If there is none, it creates
// the file with mode 0600, and its folder with mode 0700. Errors are
// ErrLedgerConfig (not a ledger, one of an earlier version, no permission, a
// network file system), ErrLedgerDown, ErrLedgerBusy and ErrNoLedger. Open
// never overwrites a file that has content.
func Open(path string, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	l := &Ledger{
		path: path, sync: o.Sync, now: o.Now, real: o.Now == nil,
		turn: make(chan struct{}, 1), readers: make(chan *conn, maxReaders),
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.closing, l.close = context.WithCancel(context.Background())
	for range maxReaders {
		l.readers <- nil
	}
	var err error
	if l.path, err = filepath.Abs(path); err != nil {
		return nil, l.explain(context.Background(), err, false)
	}
	if o.MustExist && isMissing(l.path) {
		return nil, fmt.Errorf("sqlite ledger %s: %w", l.path, ErrNoLedger)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), maxWait, errBusy)
	defer cancel()
	if err := l.exclusively(ctx, func() (bool, error) { return false, nil }); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// RealTime reports whether the ledger is on real time, not on a test's clock.
func (l *Ledger) RealTime() bool { return l.real }

// Append implements engine.Ledger.
func (l *Ledger) Append(ctx context.Context, account string, a *engine.Append) (tail *engine.Tail, err error) {
	if err := a.Check(account); err != nil {
		return nil, fmt.Errorf("sqlite ledger: %w", err)
	}
	err = l.exclusively(ctx, func() (committed bool, err error) {
		tail, committed, err = l.writer.append(account, a, l.now)
		return committed, err
	})
	if err != nil {
		return nil, err
	}
	return tail, nil
}

// exclusively runs a transaction on l.writer in this process's turn. It tries
// again if the files were replaced before a commit, and returns ErrInDoubt if
// they were replaced by the time of the commit.
func (l *Ledger) exclusively(ctx context.Context, run func() (committed bool, err error)) error {
	release, err := l.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	for range maxReopens {
		if err := l.openFiles(); err != nil {
			return l.explain(ctx, err, false)
		}
		var committed bool
		err = retryBusy(ctx, func() (err error) {
			committed, err = run()
			return err
		})
		switch replaced := !l.isCurrent(); {
		case err == nil && (!committed || !replaced):
			return nil
		case err == nil:
			return l.explain(ctx, errReplaced, true)
		case committed || !replaced:
			return l.explain(ctx, err, committed)
		}
	}
	return l.explain(ctx, errReplaced, false)
}

// takeTurn waits until neither another process nor another goroutine of this
// one appends. The caller ends the turn with release.
func (l *Ledger) takeTurn(ctx context.Context) (release func(), err error) {
	if err := l.ended(ctx); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, maxWait, errBusy)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	select {
	case l.turn <- struct{}{}:
	case <-waiting.Done():
		return nil, l.explain(ctx, context.Cause(waiting), false)
	}
	err = l.ended(waiting)
	if err == nil {
		err = l.lockFile(waiting)
	}
	if err != nil {
		<-l.turn
		return nil, l.explain(ctx, err, false)
	}
	return func() {
		_ = l.lock.Unlock() // it fails only if the file is closed, which unlocks it
		if l.lockDeleted {
			_ = l.lock.Close() // nothing was written to it
			l.lock, l.lockDeleted = nil, false
		}
		<-l.turn
	}, nil
}

// ended returns an error if the ledger is closed, or the context has ended.
func (l *Ledger) ended(ctx context.Context) error {
	if l.closing.Err() != nil {
		return l.explain(ctx, errClosed, false)
	}
	return context.Cause(ctx)
}

// lockFile locks the lock file. The caller has the turn. If the file is
// deleted, processes that have it open exclude no new ones, which is unfair and
// not unsafe; openFiles notices it.
func (l *Ledger) lockFile(ctx context.Context) error {
	if l.lock == nil {
		lock, err := openLock(l.path)
		if err != nil {
			return err
		}
		l.lock = lock
	}
	return l.lock.Lock(ctx)
}

// Read implements engine.Ledger.
func (l *Ledger) Read(ctx context.Context, account string, r *engine.Read) (tail *engine.Tail, err error) {
	err = l.reading(ctx, func(c *conn) error {
		tail, err = c.read(account, r, l.now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return tail, nil
}

// reading runs a transaction that writes nothing.
func (l *Ledger) reading(ctx context.Context, run func(*conn) error) error {
	if err := l.ended(ctx); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-l.readers:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closing.Done():
		return l.explain(ctx, errClosed, false)
	}
	defer func() { l.readers <- c }()
	for range maxReopens {
		if c != nil && !c.isCurrent(l.path) {
			_ = c.close()
			c = nil
		}
		var err error
		if c == nil {
			if c, err = l.openReader(ctx); err != nil {
				return l.explain(ctx, err, false)
			}
		}
		if err = retryBusy(ctx, func() error { return run(c) }); err == nil || c.isCurrent(l.path) {
			return l.explain(ctx, err, false)
		}
	}
	return l.explain(ctx, errReplaced, false)
}

// openReader opens a connection for reads.
func (l *Ledger) openReader(ctx context.Context) (*conn, error) {
	// This creates a file that is missing, and removes what belongs to one that
	// was replaced.
	if err := l.exclusively(ctx, func() (bool, error) { return false, nil }); err != nil {
		return nil, err
	}
	return open(l.path, "ro", l.sync)
}

// Accounts implements engine.Ledger. It reads the names before it yields any.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var names []string
		err := l.reading(ctx, func(c *conn) (err error) {
			names, err = c.accounts()
			return err
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Close implements engine.Ledger. The last process that closes the file merges
// SQLite's other files into it. Close waits for calls in flight.
func (l *Ledger) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	l.close()
	for range maxReaders {
		if c := <-l.readers; c != nil {
			c.close()
		}
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.lock != nil {
		defer l.lock.Close()
	}
	if l.writer == nil {
		return nil
	}
	c := l.writer
	l.writer = nil
	return l.explain(context.Background(), c.close(), false)
}
