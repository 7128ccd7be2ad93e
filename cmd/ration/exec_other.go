//go:build !unix

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that exec passes on to its program. The console sends
// an interrupt to every process itself.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

func isFromTerminal(s os.Signal) bool { return s == syscall.SIGINT }

func signalCode(*os.ProcessState) int { return 0 }
