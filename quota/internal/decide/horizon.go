package decide

import "time"

// day is the minimum time for which a window stays in use.
const day = int64(24 * time.Hour / time.Microsecond)

// RecentHorizon tracks how far back a list is needed: the longest horizon that
// was asked of it recently. A horizon stays in use for at least twice its
// length and a day after it was last asked. Times are in microseconds. The zero
// value was never asked.
type RecentHorizon struct {
	Since  int64 // when the current generation began
	Asked  int64 // the longest horizon asked in it
	Before int64 // the longest horizon asked in the generation before
}

// Horizon returns the longest horizon in use, or 0 if there is none.
func (u *RecentHorizon) Horizon() int64 { return max(u.Asked, u.Before) }

// Record records that a horizon was asked at now, and reports whether
// u changed.
func (u *RecentHorizon) Record(horizon, now int64) bool {
	rotated := u.Rotate(now)
	if horizon <= u.Asked {
		return rotated
	}
	if u.Asked == 0 && u.Before == 0 {
		u.Since = now
	}
	u.Asked = horizon
	return true
}

// Rotate begins a new generation if the current one is over, and reports
// whether it did.
func (u *RecentHorizon) Rotate(now int64) bool {
	if u.Horizon() == 0 || now < u.Since+max(2*u.Horizon(), day) {
		return false
	}
	if now >= u.Since+2*max(2*u.Horizon(), day) {
		u.Asked = 0 // a whole generation has passed without a question
	}
	u.Since = now
	u.Before = u.Asked
	u.Asked = 0
	return true
}

// Stale reports whether a window, last asked at an instant, is no longer
// in use.
func Stale(asked, horizon, now int64) bool { return now-asked > max(2*horizon, day) }
