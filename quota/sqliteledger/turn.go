package sqliteledger

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/ration-dev/ration/quota/internal/filelock"
)

// takeTurn waits for the lock and counts the turn.
func takeTurn(ctx context.Context, lock *filelock.Lock) error {
	err := waitTurn(ctx, lock)
	if err == nil {
		countTurn(lock)
	}
	return err
}

// waitTurn waits for the lock until ctx ends. It gives up with errStopped if no
// process gets a turn for as long as patience: the holder is stopped.
func waitTurn(ctx context.Context, lock *filelock.Lock) error {
	for {
		turns := readTurns(lock)
		attempt, cancel := context.WithTimeoutCause(ctx, patience, errStopped)
		err := lock.Lock(attempt)
		cancel()
		if !errors.Is(err, errStopped) || turns == readTurns(lock) {
			return err
		}
	}
}

// The lock file holds the number of turns behind the marker.
const turnsAt = int64(len(marker))

// countTurn adds one to the number of turns. The caller holds the lock. It is best
// effort: without it, others give up earlier.
func countTurn(lock *filelock.Lock) {
	_, _ = lock.File().WriteAt(binary.LittleEndian.AppendUint64(nil, readTurns(lock)+1), turnsAt)
}

// readTurns returns the number of turns, or 0 if the file does not hold it.
func readTurns(lock *filelock.Lock) uint64 {
	var b [8]byte
	_, _ = lock.File().ReadAt(b[:], turnsAt)
	return binary.LittleEndian.Uint64(b[:])
}
