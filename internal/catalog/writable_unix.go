//go:build unix

package catalog

import "golang.org/x/sys/unix"

// writable reports whether the mode of a file allows this process to write.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
