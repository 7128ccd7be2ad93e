package engine

import "time"

// Retention returns how long a log keeps an entry that a window can see for
// horizon: longer by an eighth of it, and by two minutes at least.
func Retention(horizon time.Duration) time.Duration {
	return horizon + max(horizon/8, 2*time.Minute)
}
