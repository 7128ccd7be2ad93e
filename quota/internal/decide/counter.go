package decide

import (
	"fmt"

	"github.com/ration-dev/ration/quota"
)

// Counter is the state of a counter window: the start of the present period,
// its count, and the count of the period before. A Counter with only a Length
// has counted nothing.
type Counter struct {
	Length               int64 // of a period
	Start, Present, Past int64
}

var _ List = (*Counter)(nil)

// Add counts amount at a stamp, which must not be before an earlier one.
func (c *Counter) Add(stamp, amount int64) {
	switch start := stamp - stamp%c.Length; {
	case start <= c.Start:
	case start == c.Start+c.Length:
		c.Start = start
		c.Past = c.Present
		c.Present = 0
	default:
		c.Start = start
		c.Past = 0
		c.Present = 0
	}
	c.Present += amount
}

// AddUncounted counts the entries that a coverage covers and that a restoration
// has added, oldest first. They may be older than what was counted before.
func (c *Counter) AddUncounted(entries []quota.Entry, coverage *quota.Coverage) {
	for i := range entries {
		e := &entries[i]
		stamp, amount := e.At.UnixMicro(), Amount(coverage, int64(e.Units), int64(e.Calls))
		switch {
		case !coverage.Covers(e.Method, e.Caller):
		case stamp < c.Start:
			c.Adjust(stamp, amount)
		default:
			c.Add(stamp, amount)
		}
	}
}

// Adjust adds delta, which may be negative, to the count of the period that
// contains a stamp. It ignores periods that no longer count.
func (c *Counter) Adjust(stamp, delta int64) {
	switch start := stamp - stamp%c.Length; start {
	case c.Start:
		c.Present = max(0, c.Present+delta)
	case c.Start - c.Length:
		c.Past = max(0, c.Past+delta)
	}
}

// Restamp moves a present period that begins after now back to the period that
// contains now, with its count. It reports whether it moved.
func (c *Counter) Restamp(now int64) bool {
	start := now - now%c.Length
	if c.Start <= start {
		return false
	}
	c.Start = start
	return true
}

// KeepHigher raises the counts to those of other, which may have counted more,
// in the later of their periods.
func (c *Counter) KeepHigher(other *Counter) {
	counted := *other
	start := max(c.Start, counted.Start)
	c.Add(start, 0)
	counted.Add(start, 0)
	c.Present, c.Past = max(c.Present, counted.Present), max(c.Past, counted.Past)
}

// Idle reports whether no count matters at now.
func (c *Counter) Idle(now int64) bool {
	return c.Start+2*c.Length <= now || c.Present == 0 && c.Past == 0
}

// Newest implements List: the stamp is the start of the present period.
func (c *Counter) Newest() (stamp, total int64) { return c.Start, c.Past + c.Present }

// Before implements List at the start of a period.
func (c *Counter) Before(at int64) int64 {
	switch {
	case at <= c.Start-c.Length:
		return 0
	case at <= c.Start:
		return c.Past
	}
	return c.Past + c.Present
}

// Reach implements List. Estimates do not use it.
func (c *Counter) Reach(int64) int64 { return c.Start }

// errShared is an ErrStays of a call of which the log has kept no entry.
var errShared = fmt.Errorf("%w: an account with counter windows alone does not know whether another process has lowered it already", quota.ErrStays)

// CheckLower returns an ErrStays if counts must not be lowered from what a
// receipt says was recorded, as the log has kept no entry of it.
func CheckLower(was *quota.Recorded, units, calls quota.Units) error {
	if was.Shared && isLower(was, units, calls) {
		return errShared
	}
	return nil
}

// LowersOthers reports whether to lower what a receipt says was recorded would
// lower what a log with an epoch has counted of others: another life of the log
// has granted the call, and this one may never have counted it.
func LowersOthers(receipt *quota.Receipt, epoch uint64, units, calls quota.Units) bool {
	return receipt.Epoch != 0 && receipt.Epoch != epoch && isLower(receipt.Recorded, units, calls)
}

func isLower(was *quota.Recorded, units, calls quota.Units) bool {
	return units < was.Units || calls == 0 && !was.Refunded
}
