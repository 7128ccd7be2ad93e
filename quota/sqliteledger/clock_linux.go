package sqliteledger

import (
	"hash/fnv"
	"os"
	"sync"

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

// readUptime returns how long this host runs.
func readUptime() uptime {
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return uptime{}
	}
	return uptime{bootOf(), since.Nano() / 1000}
}

// unsynced is STA_UNSYNC of adjtimex(2).
const unsynced = 0x40

// isSynced reports whether the system says that a time server sets its clock.
// Who sets the clock by hand ends that, until a time server has set it again.
func isSynced() bool {
	var state unix.Timex
	_, err := unix.Adjtimex(&state)
	return err == nil && state.Status&unsynced == 0
}
