package sqliteledger

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
)

// takeTurn waits for the lock and counts the turn. The caller ends the turn
// with release, which unlocks.
func (l *Ledger) takeTurn(ctx context.Context, lock *filelock.Lock) (release func(), err error) {
	if err := waitTurn(ctx, lock); err != nil {
		return nil, err
	}
	if time.Since(l.counted) >= countEvery {
		countTurn(lock)
		l.counted = time.Now()
	}
	return keepTurn(lock), nil
}

// keepTurn counts turns for as long as the caller holds the lock, until it
// calls release. So others can tell a holder that waits for its disk, which
// they wait for, from one that is stopped.
func keepTurn(lock *filelock.Lock) (release func()) {
	var released atomic.Bool
	var count func()
	count = func() {
		if !released.Load() {
			countTurn(lock)
			time.AfterFunc(countEvery, count)
		}
	}
	counting := time.AfterFunc(countEvery, count)
	return func() {
		released.Store(true)
		counting.Stop()
		_ = lock.Unlock()
	}
}

// countEvery is how often a process that takes turn after turn, or takes long
// for one, counts one, since that takes two system calls. Others look at the
// count for as long as patience.
const countEvery = patience / 8

// waitTurn waits for the lock until ctx ends. It gives up with errStopped if
// no process counts a turn for as long as patience: the holder is stopped. A
// holder that creates the ledger has longer, as it cannot count before the file
// has its marker.
func waitTurn(ctx context.Context, lock *filelock.Lock) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ok, err := lock.TryLock(); ok || err != nil {
		return err
	}
	for {
		turns := readTurns(lock)
		attempt, cancel := context.WithTimeoutCause(ctx, patience, errStopped)
		err := lock.Lock(attempt)
		cancel()
		if isStopped := turns == readTurns(lock) && !isEmpty(lock); !errors.Is(err, errStopped) || isStopped {
			return err
		}
	}
}

// isEmpty reports whether the lock file has no marker yet.
func isEmpty(lock *filelock.Lock) bool {
	info, err := lock.File().Stat()
	return err == nil && info.Size() == 0
}

// The lock file holds the number of turns that were counted, behind the marker.
const turnsAt = int64(len(marker))

// countTurn adds one to the number of turns. It is best effort: without it,
// others give up earlier.
func countTurn(lock *filelock.Lock) {
	_, _ = lock.File().WriteAt(binary.LittleEndian.AppendUint64(nil, readTurns(lock)+1), turnsAt)
}

// readTurns returns the number of turns, or 0 if the file does not hold it.
func readTurns(lock *filelock.Lock) uint64 {
	var b [8]byte
	_, _ = lock.File().ReadAt(b[:], turnsAt)
	return binary.LittleEndian.Uint64(b[:])
}
