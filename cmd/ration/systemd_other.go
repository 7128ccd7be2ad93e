//go:build !linux

package main

// monotonic is of no use without systemd.
func monotonic() string { return "" }
