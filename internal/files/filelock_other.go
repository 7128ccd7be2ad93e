//go:build !windows

package files

import (
	"errors"
	"os"
	"syscall"
)

func tryLock(file *os.File) (bool, error) {
	err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func waitLock(file *os.File) error { return flock(file, syscall.LOCK_EX) }

func unlock(file *os.File) error { return flock(file, syscall.LOCK_UN) }

// flock calls flock(2) and keeps the descriptor from being closed meanwhile.
func flock(file *os.File, how int) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		for {
			if result = syscall.Flock(int(fd), how); !errors.Is(result, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if result != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: result}
	}
	return nil
}
