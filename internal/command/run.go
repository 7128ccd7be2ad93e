package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// StoppedCode is the exit code of a program that stopped before it was done,
// ration itself included.
const StoppedCode = 75

// ErrStopped matches the *ExitError of a program that ended with StoppedCode:
// it is not done, and wants to be started again at the next tick.
var ErrStopped = errors.New("the program stopped before it was done")

// ExitError says that a program did not end with exit code 0.
type ExitError struct {
	State string // how it ended: exit status 1, signal: killed
	Code  int    // -1 if a signal ended it
	Last  string // its last line of output, truncated; may be empty
}

// Error says how the program ended, and its last line of output.
func (e *ExitError) Error() string { return withLast(e.State, e.Last) }

// Is reports whether target is ErrStopped and the exit code says so.
func (e *ExitError) Is(target error) bool { return target == ErrStopped && e.Code == StoppedCode }

func withLast(text, last string) string {
	if last == "" {
		return text
	}
	return text + ": " + last
}

// errTimeout is the cause of a context that the timeout ended.
var errTimeout = errors.New("timeout")

// Run is one run of a program.
type Run struct {
	Args    []string // Args[0] is the path of the program
	Dir     string
	Env     []string
	Secrets []string          // are replaced in the output
	Timeout time.Duration     // the longest that it may take
	Grace   time.Duration     // how long it may take to end when told to, before it is killed
	Output  func(line string) // gets each line of output, one at a time; nil discards them
}

// Do runs the program and returns nil if it ended with exit code 0. When its
// timeout is over or ctx is cancelled, the program and all that it started in
// its process group are told to end (SIGTERM), and killed after Grace. What the
// program leaves running in its group when it ends is killed too, after Grace
// at the latest.
//
// Do returns an *ExitError for another exit code, an error that names the
// timeout, or the cause of ctx. A program that was told to end because of ctx,
// and then ends with 0, is done.
func (r *Run) Do(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Args[0], r.Args[1:]...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	cmd.WaitDelay = r.Grace
	if r.Dir != "" {
		cmd.Env = slices.Concat(r.Env, []string{"PWD=" + r.Dir})
	}
	out := &output{emit: r.Output, secrets: r.Secrets}
	stdout, stderr := &lineWriter{output: out}, &lineWriter{output: out}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	startGroup(cmd)
	defer EndWithCaller(cmd)()
	var toldAt atomic.Pointer[time.Time]
	cmd.Cancel = func() error {
		toldAt.Store(new(time.Now()))
		return endGroup(cmd.Process)
	}
	if err := cmd.Start(); err != nil {
		return startError(ctx, err)
	}
	err := cmd.Wait()
	deadline := time.Now().Add(r.Grace)
	if at := toldAt.Load(); at != nil {
		deadline = at.Add(r.Grace)
	} else if errors.Is(err, exec.ErrWaitDelay) { // the grace is over
		deadline = time.Now()
	}
	told := toldAt.Load() != nil
	clearGroup(cmd.Process, told, deadline)
	stdout.flush()
	stderr.flush()
	switch state := cmd.ProcessState; {
	case told && errors.Is(context.Cause(ctx), errTimeout):
		return errors.New(withLast("killed after its timeout of "+human.Exactly(r.Timeout), out.last))
	case state == nil: // it could not be waited for
		return err
	case state.Success():
		return nil
	case told:
		return context.Cause(ctx)
	default:
		return &ExitError{State: state.String(), Code: state.ExitCode(), Last: out.last}
	}
}

// startError adds to the error of a program that could not be started what
// to do.
func startError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w; name its interpreter in the first line, such as #!/bin/sh", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; install the interpreter that its first line names", err)
	}
	return err
}
