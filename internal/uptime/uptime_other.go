//go:build !linux

package uptime

// Read returns that it is not known how long this host runs.
func Read() Uptime { return Uptime{} }
