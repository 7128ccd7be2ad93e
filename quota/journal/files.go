package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// files are the files of one account's journal. Their names begin with a hash
// of the ledger's and the account's name, which may contain any bytes:
//
//	HASH-495233.journal  the records of one hour, since the Unix epoch; see present
//	HASH.owed            exists while the ledger lacks calls of this host
//	HASH.stated          of which budgets the last restoration said what was heard
//	HASH.lock            locked by a process that grants an allowance or restores
//	HASH.keep            the longest horizon of any process of the host
type files struct {
	dir, hash string
	now       func() time.Time
	horizon   time.Duration // how far the windows of this process see

	// As of the last append that readNewest and updateNewest have seen.
	owes    atomic.Bool   // isOwed
	changes atomic.Uint64 // how many records there were that withdraw looks for; perhaps more
	settles atomic.Uint64 // how many settled, or more: the number changes with each of them

	mu   sync.Mutex
	file *os.File
	hour int64 // in its name
	buf  []byte
	lock *filelock.Lock

	latest int64     // the latest hour that present has found
	looked time.Time // when that was

	seenHour int64     // the hour whose file updateNewest reads; 0 for none
	seen     int64     // how much of that has been read
	own      int64     // how much this process has appended to it since
	checked  time.Time // when file was last found in its place

	others     time.Duration // the horizon that HASH.keep held in lookedHour
	lookedHour int64
	keptHour   atomic.Int64 // when HASH.keep was last written, if it had to be
}

const (
	suffix  = ".journal"
	segment = time.Hour

	// clockAhead is how far the host's clock may once have been ahead. Files
	// are kept for as much longer than their records need, and after as much
	// they are still in the order of their records.
	clockAhead = 24 * time.Hour

	// lockPatience is the longest wait for other processes of the host that
	// grant an allowance or restore.
	lockPatience = time.Second
)

var (
	errBusy     = errors.New("another process holds its lock")
	errNoFolder = errors.New("there is no folder for it")
)

func newFiles(dir, ledger, account string, horizon time.Duration, now func() time.Time) *files {
	sum := sha256.Sum256([]byte(ledger + "\x00" + account))
	return &files{dir: dir, hash: hex.EncodeToString(sum[:12]), now: now, horizon: horizon}
}

func (f *files) path(hour int64) string {
	return filepath.Join(f.dir, f.hash+"-"+strconv.FormatInt(hour, 10)+suffix)
}

func (f *files) owedPath() string { return filepath.Join(f.dir, f.hash+".owed") }

func (f *files) hourOf(t time.Time) int64 { return t.Unix() / int64(segment/time.Second) }

// append appends records in one write. With sync they are on the disk when
// it returns.
func (f *files) append(sync bool, records ...record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return err
	}
	f.buf = f.buf[:0]
	for i := range records {
		f.buf = records[i].encode(f.buf)
		f.changes.Add(records[i].changes())
		f.settles.Add(records[i].settles())
	}
	n, err := f.file.Write(f.buf)
	if f.hour == f.seenHour {
		f.own += int64(n)
	}
	if err != nil {
		return err
	}
	if sync {
		return f.file.Sync()
	}
	return nil
}

// present returns the hour in the name of the file to append to. It is the
// present one, unless there is a later file, which was begun when the host's
// clock was ahead: the files must stay in the order of their records. It looks
// for one each second, and when the clock was set. The caller holds f.mu.
func (f *files) present() int64 {
	now := f.now().Round(0) // by the wall clock
	hour, since := f.hourOf(now), now.Sub(f.looked)
	isRecent := since >= 0 && since < checkEvery
	if f.dir == "" || isRecent && f.hourOf(f.looked) == hour {
		return max(hour, f.latest)
	}
	f.latest, f.looked = hour+int64(clockAhead/segment)+1, now
	for f.latest > hour && f.bytesOf(f.latest) < 0 {
		f.latest--
	}
	return f.latest
}

// open opens the present file, and removes those that are too old.
func (f *files) open() error {
	hour := f.present()
	if f.file != nil && hour == f.hour {
		return nil
	}
	if err := f.makeFolder(); err != nil {
		return err
	}
	file, err := privatefile.Append(f.path(hour))
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // every write to it has succeeded
	}
	f.file, f.hour = file, hour
	f.latest = hour
	f.checked = f.now()
	f.writeKeep()
	f.removeOld()
	return nil
}

func (f *files) makeFolder() error {
	if f.dir == "" {
		return errNoFolder
	}
	return privatefile.MkdirAll(f.dir)
}

// hours returns the hours that have a file, oldest first.
func (f *files) hours() (hours []int64, err error) {
	if f.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		middle, isOurs := strings.CutPrefix(entry.Name(), f.hash+"-")
		text, isJournal := strings.CutSuffix(middle, suffix)
		if hour, err := strconv.ParseInt(text, 10, 64); err == nil && isOurs && isJournal {
			hours = append(hours, hour)
		}
	}
	slices.Sort(hours)
	return hours, err
}

// eachHour calls read for each hour that has a file, oldest first. Another
// process may have removed it since.
func (f *files) eachHour(read func(reader *privatefile.Reader, hour int64) error) error {
	hours, err := f.hours()
	if err != nil {
		return err
	}
	reader, err := privatefile.NewReader()
	if err != nil {
		return err
	}
	for _, hour := range hours {
		if err := read(reader, hour); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// bytesOf returns the size of the file of an hour, or -1 if it cannot be known.
func (f *files) bytesOf(hour int64) int64 {
	info, err := os.Lstat(f.path(hour))
	if err != nil {
		return -1
	}
	return info.Size()
}

// readFrom returns what a file holds behind from, or, if that is negative, its
// last -from bytes; and where that begins.
func readFrom(reader *privatefile.Reader, path string, from int64) (data []byte, at int64, err error) {
	file, err := reader.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if from < 0 {
		from = max(0, info.Size()+from)
	}
	data = make([]byte, max(0, info.Size()-from)) // what is appended meanwhile is read the next time
	n, err := file.ReadAt(data, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], from, err
}

// isOwed reports whether the ledger lacks calls of this host.
func (f *files) isOwed() bool {
	if f.dir == "" {
		return false
	}
	_, err := os.Lstat(f.owedPath())
	return err == nil
}

// setOwed creates or removes the file that isOwed looks for. The caller holds
// the lock.
func (f *files) setOwed(owed bool) error {
	f.owes.Store(owed)
	if !owed {
		if err := os.Remove(f.owedPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if f.isOwed() {
		return nil
	}
	file, err := privatefile.Open(f.owedPath())
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), privatefile.SyncFolder(f.dir))
}

// locked runs a function while no other process of the host grants an allowance
// for the account or restores its log.
func (f *files) locked(ctx context.Context, patience time.Duration, run func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errBusy)
	defer cancel()
	for {
		lock, err := f.openLock()
		if err != nil {
			return err
		}
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		if f.isCurrent(lock) {
			defer lock.Unlock()
			return run()
		}
		// The lock file was deleted, and other processes may lock a new one.
		// This one stays open for the goroutines that wait for it.
		f.mu.Lock()
		if f.lock == lock {
			f.lock = nil
		}
		f.mu.Unlock()
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
}

func (f *files) lockPath() string { return filepath.Join(f.dir, f.hash+".lock") }

// isCurrent reports whether a lock's file is still the one that others
// would open.
func (f *files) isCurrent(lock *filelock.Lock) bool {
	mine, err := lock.File().Stat()
	if err != nil {
		return false
	}
	present, err := os.Lstat(f.lockPath())
	return err == nil && os.SameFile(mine, present)
}

func (f *files) openLock() (*filelock.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lock != nil {
		return f.lock, nil
	}
	if err := f.makeFolder(); err != nil {
		return nil, err
	}
	lock, err := filelock.Open(f.lockPath())
	if err == nil {
		f.lock = lock
	}
	return lock, err
}

func (f *files) close() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		err = f.file.Close()
		f.file = nil
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
		f.lock = nil
	}
	return err
}

// clientFile holds the number by which ledgers know this host's journal.
const clientFile = "client"

// clientOf returns the number of the journal in a folder. If there is none, or
// no whole one, it draws one: to the ledger, what was heard under another is
// another host's. The lock that callers hold is their account's, so drawing has
// one of its own.
func clientOf(dir string) (uint64, error) {
	path := filepath.Join(dir, clientFile)
	if err := privatefile.MkdirAll(dir); err != nil {
		return 0, err
	}
	if client, err := readClient(path); client != 0 || err != nil {
		return client, err
	}
	lock, err := filelock.Open(path + ".lock")
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockPatience, errBusy)
	defer cancel()
	if err := lock.Lock(ctx); err != nil {
		return 0, err
	}
	defer lock.Unlock()
	if client, err := readClient(path); client != 0 || err != nil {
		return client, err
	}
	if err := privatefile.Replace(path, fmt.Appendf(nil, "%012x\n", quota.NewClient()), true); err != nil {
		return 0, err
	}
	client, err := readClient(path)
	if client == 0 && err == nil {
		err = fmt.Errorf("%w: %s does not hold what was written to it; check its disk", quota.ErrLedgerConfig, path)
	}
	return client, err
}

// readClient returns the number in a file, or 0 if that holds no whole one.
func readClient(path string) (uint64, error) {
	text, err := privatefile.ReadFile(path, 64)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	client, err := strconv.ParseUint(strings.TrimSpace(string(text)), 16, 48)
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return 0, nil
	}
	return client, nil
}
