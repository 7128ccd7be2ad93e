package decide

// Counter answers for a counter window without a log: the start of the present
// period, what it counts, and what the period before it counted. Its zero
// value with a Length has counted nothing.
type Counter struct {
	Length               int64 // of a period
	Start, Present, Past int64
}

var _ List = (*Counter)(nil)

// Add counts amount at a stamp, which is not before any earlier one.
func (c *Counter) Add(stamp, amount int64) {
	switch start := stamp - stamp%c.Length; {
	case start <= c.Start:
	case start == c.Start+c.Length:
		c.Start, c.Past, c.Present = start, c.Present, 0
	default:
		c.Start, c.Past, c.Present = start, 0, 0
	}
	c.Present += amount
}

// Correct adds delta, which may be negative, to the count of the period that a
// stamp lies in. A period that is over and no longer counted stays as it is.
func (c *Counter) Correct(stamp, delta int64) {
	switch start := stamp - stamp%c.Length; start {
	case c.Start:
		c.Present = max(0, c.Present+delta)
	case c.Start - c.Length:
		c.Past = max(0, c.Past+delta)
	}
}

// Restamp moves a period that begins after now back to the one that now lies
// in, with what it counted, and reports whether it did.
func (c *Counter) Restamp(now int64) bool {
	start := now - now%c.Length
	if c.Start <= start {
		return false
	}
	c.Start = start
	return true
}

// Idle reports whether nothing counted matters at now any more.
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

// Reach implements List. The estimate does not ask it.
func (c *Counter) Reach(int64) int64 { return c.Start }
