//go:build !linux

package privatefile

// IsMounted returns false: only Linux is supported.
func IsMounted(string) bool { return false }
