//go:build unix

package catalog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks the open file, not the process, so that a second open of the
// file is refused in this process too.
func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		default:
			return err
		}
	}
}

// writable reports whether the mode of a file allows this process to write.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
