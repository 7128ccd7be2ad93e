// Package uptime tells how long this host runs. No one sets that, as clocks are
// set.
package uptime

import "time"

// Uptime is how long a host runs.
type Uptime struct {
	Boot  uint64        // identifies its start; 0 if the system does not tell
	Since time.Duration // its start, also while it slept
}
