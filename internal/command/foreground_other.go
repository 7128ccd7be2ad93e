//go:build !unix

package command

import (
	"os"
	"syscall"
)

// PassedOn returns the signals to pass on to a program in the foreground. The
// console sends an interrupt to every process itself.
func PassedOn(bool) []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

func isFromTerminal(s os.Signal) bool { return s == syscall.SIGINT }

// SignalCode returns 0: no signal ends a program here.
func SignalCode(*os.ProcessState) int { return 0 }
