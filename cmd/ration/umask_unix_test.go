//go:build unix

package main

import "syscall"

// setUmask makes what the tests copy and unpack writable by its owner only,
// also in a clone made under a umask of 002.
func setUmask() { syscall.Umask(0o022) }
