package redisledger_test

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// pin gives the server one core and this process another, if there are two, so
// that they do not compete for one.
func pin(tb testing.TB, server int) {
	if runtime.NumCPU() < 2 {
		return
	}
	set := func(pid, cpu int) {
		tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			tb.Fatal(err)
		}
		var cpus unix.CPUSet
		cpus.Set(cpu)
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			if err != nil {
				tb.Fatal(err)
			}
			_ = unix.SchedSetaffinity(id, &cpus) // a thread may have ended
		}
	}
	set(server, 0)
	set(os.Getpid(), 1)
}
