package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte is an offset beyond any content, which stays readable: locks on
// Windows are mandatory.
const lockedByte = 1 << 30

func tryLock(file *os.File) (bool, error) {
	err := lock(file, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func waitLock(file *os.File) error { return lock(file, windows.LOCKFILE_EXCLUSIVE_LOCK) }

func lock(file *os.File, flags uint32) error {
	return control(file, func(handle windows.Handle) error {
		return windows.LockFileEx(handle, flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockedByte})
	})
}

func unlock(file *os.File) error {
	return control(file, func(handle windows.Handle) error {
		return windows.UnlockFileEx(handle, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockedByte})
	})
}

// control calls f and keeps the handle from being closed meanwhile.
func control(file *os.File, f func(windows.Handle) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(windows.Handle(fd)) }); err != nil {
		return err
	}
	if result != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: result}
	}
	return nil
}
