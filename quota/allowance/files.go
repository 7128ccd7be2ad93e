package allowance

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/filelock"
	"github.com/ration-dev/ration/quota/privatefile"
)

// patience is the longest wait for the processes that write the same file.
const patience = time.Second

var errBusy = errors.New("another process holds its lock")

// files keeps one file of lines for each account, with a lock file beside it:
// the lock outlives the file, which compaction replaces.
type files struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	locks map[string]*filelock.Lock // by account, kept open
}

func newFiles(dir string) *files {
	return &files{dir: dir, now: time.Now, locks: map[string]*filelock.Lock{}}
}

// path returns the file of an account, whose name is hashed: it may hold any
// bytes, and differ from another by case alone. The lines show it.
func (f *files) path(account string) string {
	sum := sha256.Sum256([]byte(account))
	return filepath.Join(f.dir, fmt.Sprintf("%x.jsonl", sum[:12]))
}

// load reads the file of an account, without the lock: a line that is just
// being written is not yet granted.
func (f *files) load(account string) (*log, error) {
	path := f.path(account)
	data, err := privatefile.ReadFile(path, math.MaxInt64)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	log, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return log, nil
}

// update appends the lines that f returns, and is the only writer meanwhile.
// They are on the disk when it returns; with an error they do not count.
func (f *files) update(ctx context.Context, account string, change func(*log, time.Time) []line) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errBusy)
	defer cancel()
	lock, err := f.lock(ctx, account)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	log, err := f.load(account)
	if err != nil {
		return err
	}
	now := f.now()
	lines := change(log, now)
	if len(lines) == 0 {
		return nil
	}
	path := f.path(account)
	if kept, worth := log.compacted(now); worth && f.replace(path, kept) == nil {
		log.size, log.ended = int64(len(kept)), true
		if err := privatefile.SyncFolder(f.dir); err != nil { // else a power cut could bring the old file back, without the lines
			return err
		}
	}
	return f.append(path, log, lines)
}

// lock waits for its turn to write the file of an account, until ctx ends.
func (f *files) lock(ctx context.Context, account string) (*filelock.Lock, error) {
	path := f.path(account) + ".lock"
	for {
		lock, err := f.open(account, path)
		if err != nil {
			return nil, err
		}
		if err := lock.Lock(ctx); err != nil {
			return nil, err
		}
		mine, err := lock.File().Stat()
		if err == nil {
			if there, err := os.Lstat(path); err == nil && os.SameFile(mine, there) {
				return lock, nil
			}
		}
		// Somebody deleted the lock file: others lock another one by now. Those who
		// wait for this one find out as well, so it is left open for them.
		f.mu.Lock()
		if f.locks[account] == lock {
			delete(f.locks, account)
		}
		f.mu.Unlock()
		if err := lock.Unlock(); err != nil {
			return nil, err
		}
	}
}

func (f *files) open(account, path string) (*filelock.Lock, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lock := f.locks[account]; lock != nil {
		return lock, nil
	}
	if err := privatefile.MkdirAll(f.dir); err != nil {
		return nil, err
	}
	lock, err := filelock.Open(path)
	if err == nil {
		f.locks[account] = lock
	}
	return lock, err
}

func (f *files) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for account, lock := range f.locks {
		errs = append(errs, lock.Close())
		delete(f.locks, account)
	}
	return errors.Join(errs...)
}

// correct records what became of a call. A call that has left the file is left alone.
func (f *files) correct(ctx context.Context, receipt quota.Receipt, op string, units quota.Units) error {
	err := f.update(ctx, receipt.Account, func(log *log, _ time.Time) []line {
		have := log.find(receipt.ID)
		if have == nil {
			return nil
		}
		return []line{{At: have.At, ID: have.ID, Op: op, Account: have.Account, Key: have.Key, Units: units}}
	})
	if err != nil {
		return fmt.Errorf("allowance: %w; the units stay counted", err)
	}
	return nil
}

// append writes lines behind what is whole of the file. What it wrote of them
// before an error it takes back.
func (f *files) append(path string, log *log, lines []line) error {
	var text []byte
	if !log.ended {
		text = append(text, '\n')
	}
	for i := range lines {
		one, err := json.Marshal(&lines[i])
		if err != nil {
			return err
		}
		text = append(append(text, one...), '\n')
	}
	file, err := privatefile.Open(path)
	if err != nil {
		return err
	}
	err = file.Truncate(log.size)
	if err == nil {
		_, err = file.WriteAt(text, log.size)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil && log.size == 0 {
		err = privatefile.SyncFolder(f.dir) // the file may be new
	}
	if err != nil {
		_ = file.Truncate(log.size) // when that fails too, the lines count: too many, not too few
	}
	return errors.Join(err, file.Close())
}

// replace puts a file with the given content in the place of path, in one step.
func (f *files) replace(path string, content []byte) error {
	temp := path + ".tmp"
	_ = os.Remove(temp) // of a process that was killed; what matters shows when it is created
	file, err := privatefile.Create(temp)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, path)
}
