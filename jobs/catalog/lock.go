package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota/privatefile"
)

// errHeld is returned by tryLock if the lock is held.
var errHeld = errors.New("held")

// Lock is a lock held by this process until Unlock. If the process ends first,
// even by a crash, the operating system releases it.
type Lock struct {
	file *os.File
	once sync.Once
}

type lockHolder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Lock takes the lock with the given name. It does not wait: if the lock is held,
// even by this process, it returns a *LockedError. The lock file lies next to the
// catalogue and is never deleted, since two runs could then lock two files.
func (c *Catalog) Lock(name string) (*Lock, error) {
	path := c.path + "." + url.PathEscape(name) + ".lock"
	f, err := privatefile.Open(path)
	if err != nil {
		return nil, c.wrap("lock "+name, fileError(path, err))
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, newLockedError(f, name)
		}
		return nil, c.wrap("lock "+name, err)
	}
	l := &Lock{file: f}
	if err := l.writeHolder(c.now()); err != nil {
		l.Unlock()
		return nil, c.wrap("lock "+name, err)
	}
	return l, nil
}

// writeHolder writes this process to the lock file, for LockedError.
func (l *Lock) writeHolder(now time.Time) error {
	host, _ := os.Hostname() // informational
	text, err := json.Marshal(lockHolder{PID: os.Getpid(), Host: host, Since: now.UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// newLockedError reads the holder of a lock from its file. The holder is unknown
// while it is writing the file.
func newLockedError(f *os.File, name string) error {
	e := &LockedError{Name: name}
	var h lockHolder
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err == nil && json.Unmarshal(text, &h) == nil {
		e.PID, e.Host, e.Since = h.PID, h.Host, h.Since
	}
	return e
}

// Unlock releases the lock. Further calls, and Unlock of a nil Lock, are no-ops.
func (l *Lock) Unlock() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		err = errors.Join(l.file.Truncate(0), l.file.Close())
	})
	if err != nil {
		return fmt.Errorf("catalog: unlock: %w", err)
	}
	return nil
}
