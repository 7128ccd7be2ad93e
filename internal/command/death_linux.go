package command

import (
	"os/exec"
	"runtime"
	"syscall"
)

// EndWithCaller makes a program get SIGTERM if this process is killed. It locks
// the goroutine to its thread, whose end Linux takes for that of the process,
// until the caller calls unlock: once the program has ended, or could not be
// started. Other systems leave the program running.
func EndWithCaller(cmd *exec.Cmd) (unlock func()) {
	runtime.LockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	return runtime.UnlockOSThread
}
