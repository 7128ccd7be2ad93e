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

// errHeld is what tryLock answers when somebody else has the lock.
var errHeld = errors.New("held")

// Lock is held until Unlock, or until the process ends in any way: the
// operating system releases it then. A nil Lock unlocks to nothing.
type Lock struct {
	file *os.File
	once sync.Once
}

type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Lock takes the run lock of a name, such as a region's, and never waits: a
// *LockedError says who has it, this process included. Its file stands beside
// the catalogue and stays there: to delete it would let two runs lock two files.
func (c *Catalog) Lock(name string) (*Lock, error) {
	path := c.path + "." + url.PathEscape(name) + ".lock"
	f, err := privatefile.Open(path)
	if err != nil {
		return nil, c.wrap("lock "+name, fileError(path, err))
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, lockedBy(f, name)
		}
		return nil, c.wrap("lock "+name, err)
	}
	l := &Lock{file: f}
	if err := l.sign(c.now()); err != nil {
		l.Unlock()
		return nil, c.wrap("lock "+name, err)
	}
	return l, nil
}

// sign writes who holds the lock, for the message to others.
func (l *Lock) sign(now time.Time) error {
	host, _ := os.Hostname() // for the message only
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: now.UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// lockedBy reads who holds the lock. A holder that is just signing is unnamed.
func lockedBy(f *os.File, name string) error {
	e := &LockedError{Name: name}
	var h holder
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err == nil && json.Unmarshal(text, &h) == nil {
		e.PID, e.Host, e.Since = h.PID, h.Host, h.Since
	}
	return e
}

// Unlock releases the lock. Further calls do nothing.
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
