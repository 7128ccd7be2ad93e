package sqliteledger

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/ration-dev/ration/quota/privatefile"
)

// isCut reports whether a file is smaller than it was: a ledger's never becomes
// smaller by itself, so another one was copied over it.
func isCut(now, before os.FileInfo) bool {
	return os.SameFile(now, before) && now.Size() < before.Size()
}

// replaceCut puts a copy in the place of a file that was cut, or deletes an
// empty one, because SQLite takes -wal and -shm for those of any file with the
// same inode. Every process then finds its file replaced, or deleted. The
// caller holds the lock.
func (l *Ledger) replaceCut() error {
	info, err := os.Stat(l.path)
	if err != nil || !isCut(info, l.seen.db) {
		return nil
	}
	file, err := privatefile.OpenRead(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	whole := false
	for began := time.Now(); !whole && time.Since(began) < patience; time.Sleep(time.Millisecond) {
		whole = isWhole(file)
	}
	if info, err = file.Stat(); err != nil {
		return err
	}
	switch {
	case info.Size() == 0:
		if err := os.Remove(l.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil // it was deleted meanwhile
	case !whole:
		return l.damage(errors.New("it was overwritten while in use, and is not whole"))
	}
	aside := l.path + ".aside"
	_ = os.Remove(aside) // of a process that was killed
	copied, err := privatefile.Create(aside)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, file)
	if closed := copied.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(aside, l.path)
}

// isWhole reports whether a database has the pages that its header says
// (SQLite's file format, 1.3), so that no copy to it is under way.
func isWhole(file *os.File) bool {
	var header [32]byte
	info, err := file.Stat()
	if err != nil {
		return false
	}
	if _, err := file.ReadAt(header[:], 0); err != nil {
		return false
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 1 << 16
	}
	return info.Size() >= page*int64(binary.BigEndian.Uint32(header[28:]))
}
