package engine

import "time"

// maxHostLead is how far the ledger's clock may be ahead of this host's to be
// believed. What a window frees is therefore freed at most that much early.
const maxHostLead = 5 * 60 * 1_000_000

// clock estimates the ledger's clock between its answers: never late by more
// than the round trip, and not ahead of it while the two run equally fast.
type clock struct {
	ledger  int64     // its time in the newest answer
	arrived time.Time // when that arrived here
}

// set takes over the time in an answer.
func (c *clock) set(now int64) { c.ledger, c.arrived = now, time.Now() }

// now returns the time by which to decide. The ledger's time is taken to pass
// a little slower than here, so that the ledger is not found behind.
func (c *clock) now(o *Options) int64 {
	if o.TestClock {
		return c.ledger
	}
	passed := time.Since(c.arrived).Microseconds()
	return min(c.ledger+passed-passed/1024, time.Now().UnixMicro()+maxHostLead)
}

// latest returns the latest time of the ledger's clock that is believed now.
func (c *clock) latest(o *Options) int64 {
	if o.TestClock {
		return Never
	}
	return time.Now().UnixMicro() + maxHostLead
}

// wall returns the ledger's time as well as it can be told, for what is to end
// after a length of time.
func (c *clock) wall(o *Options) int64 {
	if o.TestClock {
		return c.ledger
	}
	return min(c.ledger+time.Since(c.arrived).Microseconds(), time.Now().UnixMicro()+maxHostLead)
}

// agrees reports whether the ledger's clock and this host's differ by little
// enough for a wrong timestamp to be corrected by them.
func (c *clock) agrees(o *Options) bool {
	if o.TestClock {
		return true
	}
	difference := c.ledger - time.Now().UnixMicro()
	return -maxHostLead <= difference && difference <= maxHostLead
}
