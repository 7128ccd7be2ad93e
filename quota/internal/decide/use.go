package decide

import "time"

// day is the least time for which an asked window stays in use.
const day = int64(24 * time.Hour / time.Microsecond)

// Use is how long a list is needed for: the longest horizon that was asked of
// it lately. A horizon stays in use for at least twice its length and a day
// after it was last asked. Times are in microseconds; the zero Use was never
// asked.
type Use struct {
	Since  int64 // when the present generation began
	Asked  int64 // the longest horizon asked in it
	Before int64 // the same of the generation before
}

// Horizon returns the longest horizon in use, and 0 when none is.
func (u *Use) Horizon() int64 { return max(u.Asked, u.Before) }

// Ask notes that a horizon is asked at now, and reports whether u changed.
func (u *Use) Ask(horizon, now int64) bool {
	turned := u.Turn(now)
	if horizon <= u.Asked {
		return turned
	}
	if u.Asked == 0 && u.Before == 0 {
		u.Since = now
	}
	u.Asked = horizon
	return true
}

// Turn begins another generation when the present one is over, and reports
// whether it did.
func (u *Use) Turn(now int64) bool {
	if u.Horizon() == 0 || now < u.Since+max(2*u.Horizon(), day) {
		return false
	}
	if now >= u.Since+2*max(2*u.Horizon(), day) {
		u.Asked = 0 // not asked for a whole generation since
	}
	u.Since, u.Before, u.Asked = now, u.Asked, 0
	return true
}

// Stale reports whether a window of a horizon, asked last at a time, is no
// longer in use.
func Stale(asked, horizon, now int64) bool { return now-asked > max(2*horizon, day) }
