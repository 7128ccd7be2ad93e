package sqliteledger

import (
	"database/sql/driver"
	"encoding/binary"
	"io/fs"
	"maps"
	"runtime"
	"slices"

	"github.com/ration-dev/ration/quota"
)

// SQLite applies a -wal to any file that lies beside it. If an older file was
// put there, the result is a mixture of the two, which SQLite can mostly read:
// entries may be missing between others, and lists and counters may lack what
// the entries have. The file itself changes only when a process merges the -wal
// into it. So the lock file holds how the file was left, and the first
// transaction that finds it otherwise checks all of it, and computes from the
// entries what can be.

// state is how a file was left. The zero state is that of no file.
type state struct{ modified, size int64 }

func stateOf(info fs.FileInfo) state {
	if runtime.GOOS == "windows" {
		return state{} // the time can be that of when the file was last closed
	}
	return state{info.ModTime().UnixNano(), info.Size()}
}

// stateAt is where the lock file holds the state.
const stateAt = startAt + 16

// readState returns the state that the lock file holds.
func (l *Ledger) readState() (s state) {
	var b [16]byte
	if lock, release := l.lockFile(); lock != nil {
		_, _ = lock.ReadAt(b[:], stateAt)
		release()
	}
	return state{int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// writeState is best effort: without it, the next process checks the file. The
// caller holds the lock.
func (l *Ledger) writeState(s state) {
	lock, release := l.lockFile()
	if lock == nil {
		return
	}
	defer release()
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.modified))
	if _, err := lock.WriteAt(binary.LittleEndian.AppendUint64(b, uint64(s.size)), stateAt); err == nil {
		l.left = s
	}
}

// isAsLeft reports whether the file is as the last process left it.
func (l *Ledger) isAsLeft() bool {
	now := stateOf(l.seen.db)
	if now != l.left {
		l.left = l.readState() // another process may have merged the -wal
	}
	return now == l.left
}

// keepState writes the state after a commit that has merged the -wal. Any other
// change of the file is not this program's.
func (l *Ledger) keepState() {
	if now := stateOf(l.seen.db); now != l.left && l.conn.walPages() >= mergeAt {
		l.writeState(now)
	}
}

// mergeAt is how many pages of the -wal SQLite merges after a commit: its
// default of wal_autocheckpoint.
const mergeAt = 1000

// walPages returns how many pages the -wal holds.
func (c *conn) walPages() (n int64) {
	c.queryRows("PRAGMA wal_checkpoint(NOOP)", func(row []driver.Value) { n = integer(row[1]) })
	return n
}

// recheck checks the whole file, and computes the lists that do not match its
// entries, and all counters, anew. It always writes something, so that other
// processes drop the pages of the file that they have cached.
func (t *tx) recheck() {
	if err := t.ledger.checkIntegrity(); err != nil {
		t.fail(err)
		return
	}
	var names []logName
	t.query("logs", func(row []driver.Value) { names = append(names, logName{text(row[0]), text(row[1])}) })
	for _, name := range names {
		g := t.load(name)
		maps.DeleteFunc(g.lists, func(_ string, l *list) bool { return l != g.all && !t.differs(g, l) })
		t.refill(g, nil)
		t.save(g)
		t.exec("drop-sums", g.id) // they are added again, block by block
	}
	t.exec("logs-touch")
}

// differs reports whether a list is not what its entries add up to: in number,
// in sum, or in a sum that depends on where each is.
func (t *tx) differs(g *log, l *list) bool {
	has := slices.Clone(t.queryRow("list-check", l.id))
	return !slices.Equal(has, t.queryRow("list-want", l.id, g.id, l.coverage.Measure == quota.Calls, t.coveredLabels(l.coverage)))
}
