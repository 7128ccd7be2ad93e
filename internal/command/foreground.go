package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/ration-dev/ration/internal/human"
)

// StartError says that a program cannot be started. Code is what a shell
// exits with in that case: 127 if it finds no such program, and 126 if it
// cannot run it.
type StartError struct {
	Code int
	Err  error
}

// Error returns the text of Err.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// Find returns the path of a program as execvp finds it, or a *StartError.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the shell would run it too, since PATH names the folder
	}
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &StartError{127, fmt.Errorf("exec: no program %s; write its path, or name one in PATH",
			human.Name(name))}
	}
	return "", &StartError{126, fmt.Errorf("exec: %s cannot be run: %w", human.Name(name), errors.Unwrap(err))}
}

// Foreground runs a program until it ends, and passes on the signals of this
// process that come from signals: PassedOn says which. It returns whether one
// of them asked the program to end, and a *StartError or the error of Cmd.Wait.
func Foreground(cmd *exec.Cmd, signals <-chan os.Signal) (told bool, err error) {
	defer EndWithCaller(cmd)()
	if err := cmd.Start(); err != nil {
		return false, &StartError{126, fmt.Errorf("exec: %w", err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			told = told || s == syscall.SIGINT || s == syscall.SIGTERM
			if !isFromTerminal(s) {
				_ = cmd.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			return told, err
		}
	}
}
