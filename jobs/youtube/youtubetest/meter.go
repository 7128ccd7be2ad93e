package youtubetest

import (
	"time"
	_ "time/tzdata" // the Pacific day must not depend on the machine
)

// pacific returns the time zone of YouTube's quota days.
func pacific() *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic("youtubetest: " + err.Error()) // the zones are compiled in
	}
	return zone
}

// window returns the window of the quota around now: [from, to).
func (s *Server) window(now time.Time) (from, to time.Time) {
	if d := s.opts.Window; d > 0 {
		n := now.Sub(s.start) / d
		if now.Before(s.start.Add(n * d)) { // integer division rounds towards zero
			n--
		}
		return s.start.Add(n * d), s.start.Add((n + 1) * d)
	}
	y, m, d := now.In(s.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, s.zone), time.Date(y, m, d+1, 0, 0, 0, 0, s.zone)
}

// spent returns the units used in the window around now, by bucket. Each window
// has its own map, so a clock that steps back finds what was counted before.
func (s *Server) spent(now time.Time) map[string]int64 {
	from, _ := s.window(now)
	at := from.UnixNano()
	if s.used[at] == nil {
		s.used[at] = map[string]int64{}
	}
	return s.used[at]
}

// charge counts a call and reports true, or refuses it.
func (s *Server) charge(now time.Time, bucket string, units int64) bool {
	spent := s.spent(now)
	if spent[bucket] >= s.limits[bucket] || s.opts.Exact && spent[bucket]+units > s.limits[bucket] {
		return false
	}
	spent[bucket] += units
	return true
}

// Used returns the units used in the current window of the server's clock, by
// bucket. They include those of SpendElsewhere, as the upstream's own count
// does. They may exceed the limit.
func (s *Server) Used() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	spent := s.spent(s.opts.Now())
	used := make(map[string]int64, len(s.limits))
	for bucket := range s.limits {
		used[bucket] = spent[bucket]
	}
	return used
}

// Resets returns the end of the current window of the server's clock: the time
// at which the whole quota is available again.
func (s *Server) Resets() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, to := s.window(s.opts.Now())
	return to.UTC()
}

// SpendElsewhere uses units of a bucket in the current window, as another tool
// on the same project would. Used grows whatever the limit, and no arrival is
// recorded. A negative number returns units.
func (s *Server) SpendElsewhere(bucket string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustKnow(bucket)
	s.spent(s.opts.Now())[bucket] += units
}

// SetLimit changes a bucket's limit from the next request on. It does not
// change what is used. A limit of 0 refuses every call, like a project
// without quota.
func (s *Server) SetLimit(bucket string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustKnow(bucket)
	s.limits[bucket] = units
}

// mustKnow panics if the model does not have the bucket: a test that names one
// is wrong, and might pass for the wrong reason.
func (s *Server) mustKnow(bucket string) {
	if _, ok := s.limits[bucket]; !ok {
		panic("youtubetest: no bucket " + bucket + " in this model; use DefaultBucket, or Since2026 for SearchBucket")
	}
}
