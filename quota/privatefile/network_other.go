//go:build !linux

package privatefile

// OnNetwork returns false: only Linux is supported.
func OnNetwork(string) bool { return false }
