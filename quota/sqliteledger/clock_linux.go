package sqliteledger

import "golang.org/x/sys/unix"

// unsynced is STA_UNSYNC of adjtimex(2).
const unsynced = 0x40

// isSynced reports whether the system says that a time server sets its clock.
// Who sets the clock by hand ends that, until a time server has set it again.
func isSynced() bool {
	var state unix.Timex
	_, err := unix.Adjtimex(&state)
	return err == nil && state.Status&unsynced == 0
}
