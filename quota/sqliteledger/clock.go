package sqliteledger

import (
	"encoding/binary"
	"os"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// The clock of a file's ledger is its host's. If that is set ahead, the windows
// would free what is still used. The witness is the time since the host's
// start, which no one sets: the lock file holds when that was, by the clock of
// then. A clock that has left it by more than quota.MaxClockLead is in doubt,
// because it was set ahead, or because a virtual machine was paused and the
// clock is right. While it is, a call must fit by both times, and its entry
// gets the later one: so no limit is exceeded, whichever is right. The doubt
// ends if the system says that a time server sets the clock, if an answer of
// the upstream has its date, by ration ledger accept, or when the clock is
// corrected.

// startAt is where the lock file holds the start of the host: its identity, and
// when it was, in microseconds since the Unix epoch.
const startAt = turnsAt + 8

// readStart returns when a start of the host was, if the lock file holds it.
func readStart(lock *os.File, boot uint64) (at int64, known bool) {
	var b [16]byte
	if n, _ := lock.ReadAt(b[:], startAt); n < len(b) || binary.LittleEndian.Uint64(b[:]) != boot {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(b[8:])), true
}

// writeStart is best effort: without it, the next process is the first one.
func writeStart(lock *os.File, boot uint64, at int64) {
	b := binary.LittleEndian.AppendUint64(nil, boot)
	_, _ = lock.WriteAt(binary.LittleEndian.AppendUint64(b, uint64(at)), startAt)
}

// setClock sets the times of a transaction. Only one that writes, and so holds
// the lock, may change the lock file.
func (t *tx) setClock(writes bool) {
	l := t.ledger
	t.wall = l.now().UnixMicro()
	t.now = t.wall
	if l.uptime == nil {
		return
	}
	up := l.uptime()
	lock, release := l.lockFile()
	if up.Boot == 0 || lock == nil {
		return
	}
	defer release()
	start := t.wall - up.Since.Microseconds()
	kept, known := readStart(lock, up.Boot)
	switch lead := time.Duration(start-kept) * time.Microsecond; {
	case known && lead > quota.MaxClockLead && !l.isSynced():
		t.now = t.wall - lead.Microseconds()
		if l.doubted.IsZero() {
			l.doubted = time.Now()
		}
		return
	case known && lead >= -time.Second && lead <= quota.MaxClockLead:
	case writes: // the first one since the start, or the clock was set back, or by a time server
		writeStart(lock, up.Boot, start)
	}
	l.doubted = time.Time{}
}

// lockFile returns the lock's file, or nil if there is none. Before the first
// write, it opens the file to read it.
func (l *Ledger) lockFile() (file *os.File, release func()) {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.lock != nil {
		return l.lock.File(), func() {}
	}
	file, err := privatefile.OpenRead(l.lockPath())
	if err != nil {
		return nil, nil
	}
	return file, func() { _ = file.Close() }
}

// inDoubt reports whether the clock is in doubt: now is before wall.
func (t *tx) inDoubt() bool { return t.now < t.wall }

// trustClock ends the doubt for this transaction.
func (t *tx) trustClock() { t.now = t.wall }

// askUpstream ends the doubt for good if the batch accepts the clock, or the
// upstream has answered since the doubt began and supports it. It returns an
// error if the upstream contradicts the clock, or a window of the batch cannot
// be judged by two times.
func (t *tx) askUpstream(batch *quota.Batch) error {
	var upstream time.Time
	if batch.Upstream != nil {
		upstream = batch.Upstream(batch.Account, t.ledger.doubted)
	}
	supports := !upstream.IsZero() && decide.Time(t.wall).Sub(upstream) <= quota.MaxClockLead
	switch {
	case batch.Key != "": // it limits a client of this host, by this host's clock
		return nil
	case batch.Clock.IsZero(), supports:
		if lock, release := t.ledger.lockFile(); lock != nil {
			up := t.ledger.uptime()
			writeStart(lock, up.Boot, t.wall-up.Since.Microseconds())
			release()
		}
		t.ledger.doubted = time.Time{}
		t.trustClock()
		return nil
	case !upstream.IsZero():
		err := t.clockError(batch)
		err.Upstream = upstream
		return err
	}
	for i := range batch.Requests {
		for _, charge := range batch.Requests[i].Charges {
			if charge.Window.Estimate() && !batch.Requests[i].Force {
				return t.clockError(batch)
			}
		}
	}
	return nil
}

func (t *tx) clockError(batch *quota.Batch) *quota.ClockError {
	return &quota.ClockError{Account: batch.Account, Key: batch.Key, Ledger: decide.Time(t.wall), Caller: decide.Time(t.now), ByUptime: true}
}
