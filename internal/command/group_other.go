//go:build !unix

package command

import (
	"os"
	"os/exec"
	"strconv"
	"time"
)

// startGroup does nothing: there are no process groups here.
func startGroup(*exec.Cmd) {}

// endGroup kills a program with the processes that it started, by taskkill of
// Windows, or where that fails the program alone.
func endGroup(leader *os.Process) error {
	if err := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run(); err == nil {
		return nil
	}
	return leader.Kill()
}

// clearGroup does nothing: what a program leaves running is not known once it
// has ended.
func clearGroup(*os.Process, bool, time.Time) {}
