package plan

import "sort"

// series is a list of amounts by time, oldest first, kept as a running total so
// that the sum of any interval takes two lookups.
type series struct {
	at    []int64 // microseconds since the Unix epoch
	total []int64 // total[i] is the sum of the first i amounts
}

func (s *series) add(at, amount int64) {
	if s.total == nil {
		s.total = append(s.total, 0)
	}
	s.at, s.total = append(s.at, at), append(s.total, s.total[len(s.at)]+amount)
}

func (s *series) reset() { s.at, s.total = s.at[:0], append(s.total[:0], 0) }

// sum returns the sum of the amounts from one time to another, both included. A
// nil series sums to 0.
func (s *series) sum(from, until int64) int64 {
	if s == nil || len(s.at) == 0 || until < from {
		return 0
	}
	return s.total[s.indexOf(until+1)] - s.total[s.indexOf(from)]
}

// indexOf returns the index of the first amount at or after at.
func (s *series) indexOf(at int64) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i] >= at })
}

// cursor holds the indexes of the last interval that was summed. Summing
// intervals in the order of time finds each index near the last one.
type cursor struct{ from, until int }

// sumFrom is like sum, but starts its lookups at a cursor, which it moves.
func (s *series) sumFrom(c *cursor, from, until int64) int64 {
	if len(s.at) == 0 || until < from {
		return 0
	}
	c.from, c.until = s.seek(c.from, from), s.seek(c.until, until+1)
	return s.total[c.until] - s.total[c.from]
}

// seek is like indexOf, but searches linearly from index i.
func (s *series) seek(i int, at int64) int {
	for i = min(i, len(s.at)); i < len(s.at) && s.at[i] < at; {
		i++
	}
	for i > 0 && s.at[i-1] >= at {
		i--
	}
	return i
}
