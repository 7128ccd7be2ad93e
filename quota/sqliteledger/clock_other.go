//go:build !linux

package sqliteledger

// readUptime returns that the time since the host's start is not known.
func readUptime() uptime { return uptime{} }

func isSynced() bool { return true }
