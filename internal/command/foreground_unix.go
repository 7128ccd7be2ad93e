//go:build unix

package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PassedOn returns the signals to pass on to a program in the foreground,
// without SIGHUP if nohup makes this process ignore it: a program does not
// inherit that from a process that awaits the signal.
func PassedOn(nohup bool) []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGCONT}
	if !nohup {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// isFromTerminal reports whether a signal probably comes from the terminal of
// this process, which sends it to every process in the foreground: the program
// has it already.
func isFromTerminal(s os.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
	default:
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == syscall.Getpgrp()
}

// SignalCode returns 128 and the number of the signal that ended a program,
// or 0.
func SignalCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 0
}
