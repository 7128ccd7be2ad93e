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

// patience is the longest wait for other processes that write the same file.
const patience = time.Second

var errBusy = errors.New("another process holds its lock")

// files holds one file of lines for each account. Each has its own lock file,
// because compaction replaces the file.
type files struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	locks map[string]*filelock.Lock // by account; open
}

// path returns the file of an account. It hashes the name, which may contain any
// bytes and may differ from another only in case. The lines contain the name.
func (f *files) path(account string) string {
	sum := sha256.Sum256([]byte(account))
	return filepath.Join(f.dir, fmt.Sprintf("%x.jsonl", sum[:12]))
}

// load reads the file of an account. It needs no lock: a line that is being
// written has not been granted yet.
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

// update appends the lines that change returns while it holds the lock. They are
// on the disk when it returns; after an error they do not count.
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
		if err := privatefile.SyncFolder(f.dir); err != nil {
			return err // a power loss could restore the old file, without the lines
		}
	}
	return f.append(path, log, lines)
}

// lock locks the file of an account, and waits for the lock until ctx ends.
func (f *files) lock(ctx context.Context, account string) (*filelock.Lock, error) {
	path := f.path(account) + ".lock"
	for {
		lock, err := f.openLock(account, path)
		if err != nil {
			return nil, err
		}
		if err := lock.Lock(ctx); err != nil {
			return nil, err
		}
		mine, err := lock.File().Stat()
		if err == nil {
			if current, err := os.Lstat(path); err == nil && os.SameFile(mine, current) {
				return lock, nil
			}
		}
		// The lock file was deleted, and other processes may lock a new one. This
		// one stays open for the goroutines that wait for it.
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

func (f *files) openLock(account, path string) (*filelock.Lock, error) {
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

// settle records the outcome of a call. It does nothing for a call that is no
// longer in the file.
func (f *files) settle(ctx context.Context, receipt quota.Receipt, op string, units quota.Units) error {
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

// append writes lines after the last whole line of the file. After an error it
// removes what it wrote.
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
		_ = file.Truncate(log.size) // if that fails too, the lines count: too many, not too few
	}
	return errors.Join(err, file.Close())
}

// replace atomically replaces the file at path. Unlike privatefile.Replace it
// removes what a killed process has left.
func (f *files) replace(path string, content []byte) error {
	temp := path + ".tmp"
	_ = os.Remove(temp) // Create reports what Remove could not
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
