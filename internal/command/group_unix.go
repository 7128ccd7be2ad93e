//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startGroup makes a command start in a process group of its own.
func startGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup tells the processes of a program's group to end.
func endGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// groupPoll is how often clearGroup looks whether processes are left.
const groupPoll = 10 * time.Millisecond

// clearGroup ends what is left of a program's group after the program has
// ended: it is told to end, unless it was before, and killed at the deadline.
// While a process of the group is left, no other process gets its number.
func clearGroup(leader *os.Process, told bool, deadline time.Time) {
	if !told && endGroup(leader) != nil {
		return
	}
	for syscall.Kill(-leader.Pid, 0) == nil {
		if !time.Now().Before(deadline) {
			_ = syscall.Kill(-leader.Pid, syscall.SIGKILL) // fails if the last one has just ended
			return
		}
		time.Sleep(min(groupPoll, time.Until(deadline)))
	}
}
