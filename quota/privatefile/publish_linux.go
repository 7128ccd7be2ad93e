package privatefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// publish renames a file or folder. It fails with fs.ErrExist if the new name
// is taken, and with errors.ErrUnsupported on file systems that cannot tell in
// the same step.
func publish(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS):
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
