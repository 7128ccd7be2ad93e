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

	"github.com/ration-dev/ration/internal/files"
)

// Lock is a lock held by this process until Unlock. If the process ends first,
// even by a crash, the operating system releases it.
type Lock struct {
	// Left is the note of the last holder if that ended without Unlock or
	// called KeepNote, else "".
	Left string

	keeps  bool // Unlock leaves the note
	lock   *files.Lock
	holder lockHolder
	once   sync.Once
}

type lockHolder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Note  string    `json:"note,omitempty"`
}

// Lock takes the lock with the given name. It does not wait: if the lock is
// held, even by this process, it returns a *LockedError. The lock file lies
// next to the catalogue and is never deleted, since two runs could then lock
// two files.
func (c *Catalog) Lock(name string) (*Lock, error) {
	path := c.path + "." + url.PathEscape(name) + ".lock"
	lock, err := files.OpenLock(path)
	if err != nil {
		return nil, c.wrap("lock "+name, fileError(path, err))
	}
	if isOurs, err := lock.TryLock(); !isOurs {
		defer lock.Close()
		if err != nil {
			return nil, c.wrap("lock "+name, err)
		}
		return nil, newLockedError(lock.File(), name)
	}
	note := readHolder(lock.File()).Note
	l := &Lock{lock: lock, Left: note,
		holder: lockHolder{PID: os.Getpid(), Host: c.host, Since: c.now().UTC().Truncate(time.Second), Note: note}}
	if err := l.writeHolder(); err != nil {
		l.Unlock()
		return nil, c.wrap("lock "+name, err)
	}
	return l, nil
}

// SetNote replaces the note for the next holder, in case this one ends
// without Unlock or calls KeepNote. Until then it is Left.
func (l *Lock) SetNote(note string) error {
	l.holder.Note = note
	if err := l.writeHolder(); err != nil {
		return fmt.Errorf("catalog: note in a lock: %w", err)
	}
	return nil
}

// KeepNote makes Unlock leave the note to the next holder.
func (l *Lock) KeepNote() { l.keeps = true }

// writeHolder writes this process to the lock file, for LockedError.
func (l *Lock) writeHolder() error {
	text, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	if err := l.lock.File().Truncate(0); err != nil {
		return err
	}
	_, err = l.lock.File().WriteAt(append(text, '\n'), 0)
	return err
}

// newLockedError reads the holder of a lock from its file. The holder is
// unknown while it is writing the file.
func newLockedError(f *os.File, name string) error {
	h := readHolder(f)
	return &LockedError{Name: name, PID: h.PID, Host: h.Host, Since: h.Since}
}

// readHolder returns what a lock file says, or the zero value.
func readHolder(f *os.File) (h lockHolder) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 4<<10))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return lockHolder{}
	}
	return h
}

// Unlock releases the lock. Further calls, and Unlock of a nil Lock,
// are no-ops.
func (l *Lock) Unlock() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		if !l.keeps {
			err = l.lock.File().Truncate(0)
		}
		err = errors.Join(err, l.lock.Close())
	})
	if err != nil {
		return fmt.Errorf("catalog: unlock: %w", err)
	}
	return nil
}
