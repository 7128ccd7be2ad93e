// Package sqliteledger implements a quota.Ledger in a SQLite file that the
// processes of one host share.
//
// The file is in WAL mode. Every spend is one BEGIN IMMEDIATE transaction,
// which is synced to the disk before Spend returns unless Options.Sync says
// otherwise. Three files accompany it: SQLite's -wal and -shm, and a .lock with
// which processes take turns. SQLite's own waiting is unfair: measured
// 2026-11-20 with 8 processes, the slowest got 0 to 19 % of what the fastest
// got. Only their owner can read the four files. On Linux the .lock also says
// when the host started, by which a clock that was set ahead is noticed; see
// quota.ClockError.ByUptime. It also says how the file was left. If that is
// replaced or changed by another program, the next transaction checks all of
// it, which took 3.5 s for a million entries and one list of a narrower
// coverage.
//
// Open upgrades a file of an older version in one transaction. A process
// of that older version that still has it open gets quota.ErrLedgerConfig
// from then on and must be restarted. A file of a newer version is refused
// with ErrLedgerConfig.
package sqliteledger

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/internal/uptime"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Sync is how durable a granted spend is.
type Sync uint8

const (
	// Full survives a power loss: every commit waits for the disk.
	Full Sync = iota
	// Normal survives the death of the process, but a power loss may lose the
	// last commits. It is about ten times as fast as Full.
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
	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
	// Sync is how durable a granted spend is; the zero value is Full.
	Sync Sync
	// MustExist makes Open fail with ErrNoLedger instead of creating a ledger.
	MustExist bool
}

// patience is how long a caller waits for another process that does not make
// progress with the file, before the ledger counts as down.
const patience = time.Second

// maxWait is how long a caller waits while other processes make progress.
const maxWait = 10 * time.Second

// Ledger is a quota.Ledger in a file. It is safe for concurrent use. An entry
// takes about 30 bytes, and 15 more for each further coverage that counts it. A
// log that is only asked Counter windows keeps no entries. Granted calls delete
// expired rows, at most 512 of a list at a time. The file does not shrink, but
// its free pages are reused.
type Ledger struct {
	path     string // absolute
	sync     Sync
	now      func() time.Time
	realTime bool
	uptime   func() uptime.Uptime // nil on a test's clock
	isSynced func() bool          // whether a time server sets the host's clock
	combiner *combine.Combiner

	opening sync.Mutex
	lock    *filelock.Lock // nil until the first write

	turn chan struct{} // has a value while the fields below are in use
	conn *conn         // nil once closed, and while the file is missing
	seen identity      // of the files of the last connection
	days decide.Days

	closed bool

	left state // of the file, by the last commit; see isAsLeft

	doubted time.Time // since when the clock is in doubt, or zero
	counted time.Time // when a turn was last counted; the holder of lock uses it

	accounts map[string]bool // their names were checked

	damaged atomic.Bool // a batch found the file damaged, and its caller will restore it

	looked map[logName]int64 // when each log was last searched for an entry that a batch knew
	newest sync.Map          // of quota.Receipt, by logName: what this process was granted last

	// The cache of the file's content, which is valid for one version of it.
	version uint32
	logs    map[logName]*log
	labels  map[label]labelRow
	limits  map[string]*decide.Limits // by account
}

var _ quota.RealTimeLedger = (*Ledger)(nil)

// Open opens the ledger in the file at path. If there is none, it creates
// the file with mode 0600, and its folder with mode 0700. Errors are
// quota.ErrLedgerConfig (not a ledger, no permission, a network file
// system), quota.ErrLedgerDown and ErrNoLedger. Open never overwrites a file
// that exists.
//
// If there was a ledger at path and its file is missing, Open succeeds, and the
// methods return quota.ErrLedgerLost until the file is put back. Spend returns
// a quota.ForgottenError to a batch that knows an entry, and Restore creates
// the file again. The same holds if the file is deleted or emptied while the
// Ledger is open. If another file takes its place, such as an older copy, or a
// smaller one is copied over it, the Ledger continues with that one.
func Open(path string, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	l := &Ledger{path: path, sync: o.Sync, now: o.Now, realTime: o.Now == nil, turn: make(chan struct{}, 1), days: decide.Days{}, looked: map[logName]int64{}, accounts: map[string]bool{}}
	if l.now == nil {
		l.now = time.Now
		l.uptime = uptime.Read
		l.isSynced = isSynced
	}
	l.dropCache()
	l.combiner = combine.New(l.spend, l.refund, maxWait)
	var err error
	if l.path, err = filepath.Abs(path); err != nil {
		return nil, l.explain(err, opening)
	}
	if err := whileShared(func() error { return l.connect(!o.MustExist) }); err != nil && !isGone(err) {
		return nil, err
	}
	return l, nil
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return l.realTime }

// Spend implements quota.Ledger. Concurrent callers share a transaction.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	return l.combiner.Spend(ctx, batch)
}

// Around implements quota.CombiningLedger.
func (l *Ledger) Around(layer func(quota.SpendFunc) quota.SpendFunc) { l.combiner.Around(layer) }

// refund refunds a grant whose caller has left.
func (l *Ledger) refund(receipt quota.Receipt) {
	_ = l.Refund(context.Background(), receipt) // after an error the units stay charged
}

// Close implements quota.Ledger. The last process that closes the file merges
// SQLite's other files into it.
func (l *Ledger) Close() error {
	lock, release := l.lockToClose()
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if lock != nil {
		defer lock.Close()
		if ok, _ := lock.TryLock(); release == nil && ok { // a transaction of this Ledger may have had it
			release = keepTurn(lock)
		}
	}
	isLocked := release != nil
	if isLocked {
		defer release()
	}
	l.closed = true
	if l.conn == nil {
		return nil
	}
	if errors.Is(l.checkReplaced(), errReplaced) {
		if err := l.replaceCut(); err != nil {
			l.conn = nil // SQLite would merge its -wal into the file
			return err
		}
		l.disconnect()
		present, err := identify(l.path)
		if !isLocked || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, l.removeOld(present))
	}
	wasAsLeft := isLocked && l.isAsLeft()
	err := l.conn.close()
	l.conn = nil
	if merged, statErr := os.Stat(l.path); wasAsLeft && statErr == nil && stateOf(merged) != l.left {
		l.writeState(stateOf(merged))
	}
	return l.explain(err, working)
}

// lockToClose takes the lock for Close, which may do without: its holder is
// slow or stopped, and SQLite closes without the lock. A Ledger that only read
// hardly waits, as others then use the file and it merges nothing. release is
// nil if it has not got the lock.
func (l *Ledger) lockToClose() (lock *filelock.Lock, release func()) {
	l.opening.Lock()
	lock, patience := l.lock, patience
	l.opening.Unlock()
	if lock == nil && l.wasCreated() {
		lock, _ = l.openLock()
		patience = countEvery // for one that closes the file before this
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if lock == nil || lock.Lock(ctx) != nil {
		return lock, nil
	}
	return lock, keepTurn(lock)
}

// write runs f in a transaction once it has the lock.
func (l *Ledger) write(ctx context.Context, f func(*tx)) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.reopening(ctx, func() error {
		lock, err := l.openLock()
		var release func()
		if err == nil {
			release, err = l.takeTurn(ctx, lock)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return errReplaced // its folder was deleted
		}
		if err != nil {
			return l.callerError(ctx, err)
		}
		defer release()
		return l.transact(ctx, "begin", f)
	})
}

// read runs f in a transaction that writes nothing.
func (l *Ledger) read(ctx context.Context, f func(*tx)) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.reopening(ctx, func() error { return l.transact(ctx, "read", f) })
}

// bounded adds the longest wait to a context.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, maxWait, errBusy)
}

// callerError returns err if it is the cause with which the caller's context
// ended, and explains it otherwise.
func (l *Ledger) callerError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errBusy) && errors.Is(err, cause) {
		return err
	}
	return l.explain(err, working)
}

func (l *Ledger) transact(ctx context.Context, begin string, f func(*tx)) error {
	if ctx.Err() != nil {
		return l.callerError(ctx, context.Cause(ctx))
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return l.callerError(ctx, context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	for began := time.Now(); ; {
		err := l.attempt(begin, f)
		mayOnlyRead := isBeingShared(err)
		if !busy(err) && !mayOnlyRead || time.Since(began) > patience { // a program that does not take turns
			return err
		}
		select {
		case <-ctx.Done():
			return l.callerError(ctx, context.Cause(ctx))
		case <-time.After(time.Millisecond):
		}
		if mayOnlyRead {
			if err := whileShared(l.reconnect); err != nil {
				return l.explain(err, opening)
			}
		}
	}
}

// attempt runs one transaction.
func (l *Ledger) attempt(begin string, f func(*tx)) error {
	switch {
	case l.closed:
		return l.explain(errClosed, working)
	case l.conn == nil:
		return l.explain(errReplaced, working)
	}
	c := l.conn
	c.reset()
	if err := l.checkReplaced(); err != nil {
		return l.explain(err, working)
	}
	writes := begin == "begin"
	rechecks := writes && !l.isAsLeft()
	if rechecks {
		clear(l.looked)
		if err := whileShared(l.reconnect); err != nil { // the connection may have cached pages of what was there
			return l.explain(err, opening)
		}
		c = l.conn
	}
	was := stateOf(l.seen.db)
	if c.exec(begin); c.err != nil {
		if err := l.checkReplaced(); err != nil { // it was deleted since
			return l.explain(err, working)
		}
		return l.explain(l.leaveCut(c.err), working)
	}
	if writes && c.version() != l.version {
		l.dropCache()
	}
	t := &tx{conn: c, ledger: l}
	t.setClock(writes)
	if rechecks {
		t.recheck()
	}
	f(t)
	t.flush()
	at := working
	if c.err == nil {
		at = committing
		if c.exec("commit"); c.err == nil {
			if !writes { // a read may see what others have written, which it does not cache
				return nil
			}
			if rechecks {
				l.writeState(was)
			}
			return l.explain(l.committed(), committing)
		}
	}
	return l.rollBack(at)
}

// rollBack ends a transaction that has failed, and explains why.
func (l *Ledger) rollBack(at phase) error {
	failed := l.conn.err
	err := l.explain(failed, at)
	if replaced := l.checkReplaced(); replaced != nil && at == working { // it was deleted or cut meanwhile
		err = l.explain(replaced, working)
	}
	l.conn.reset()
	l.conn.exec("rollback") // it fails if SQLite has rolled back
	l.dropCache()
	if at == working && endsEarly(failed) {
		err = l.explain(l.leaveCut(failed), working)
	}
	return err
}

// committed notes what a transaction has left. It returns an error if that may
// be in a file that is gone.
func (l *Ledger) committed() error {
	l.version = l.conn.version()
	if err := l.checkReplaced(); err != nil {
		return err
	}
	l.keepState()
	return nil
}

// dropCache drops the cache of the file's content.
func (l *Ledger) dropCache() {
	l.version = 0
	l.logs = map[logName]*log{}
	l.labels = map[label]labelRow{}
	l.limits = map[string]*decide.Limits{}
}
