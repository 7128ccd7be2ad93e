package uptime

import (
	"hash/fnv"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootOf identifies the start of this host and, since a time namespace can have
// another time since then, the namespace.
var bootOf = sync.OnceValue(func() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // none on a kernel without them
	sum := fnv.New64a()
	_, _ = sum.Write(append(id, namespace...))
	return sum.Sum64()
})

// Read returns how long this host runs.
func Read() Uptime {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return Uptime{}
	}
	return Uptime{bootOf(), time.Duration(since.Nano())}
}
