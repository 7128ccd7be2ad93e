package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// monotonic is the instant of a reload as systemd wants it: of the clock that
// does not step, so that what was before it and what after can be told.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)
}
