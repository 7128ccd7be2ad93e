package engine

import "slices"

// point is what one entry counts in a series.
type point struct {
	at     int64
	amount int64
	entry  uint32 // its number in the fold; later entries have greater numbers
}

// series holds what a coverage counts, by time. Sums from a time on are kept
// by cursors, each of which costs one comparison a change.
type series struct {
	coverage *Coverage
	key      string // of a coverage by key; records without a key are one too
	points   []point
	unsorted bool // points were added out of order since the cursors moved last
	total    int64
	cursors  []*cursor
	watchers []watcher
	tried    int  // the newest points, which were added for a try
	isMixed  bool // they are among others
}

// watcher is told from which point on what it has computed no longer holds, and
// how many points are dropped.
type watcher interface {
	invalidate(from int)
	drop(points int)
}

// cursor is the sum of the points of a series from a time on.
type cursor struct {
	series *series
	since  int64
	from   int // the first point that counts
	sum    int64
}

// newCursor returns a cursor of s at the time 0.
func (s *series) newCursor() *cursor {
	c := &cursor{series: s, sum: s.total}
	s.cursors = append(s.cursors, c)
	return c
}

// add adds a point. It is fast at the end of the series.
func (s *series) add(p point) {
	if n := len(s.points); n > 0 && p.at < s.points[n-1].at {
		s.unsorted = true
	}
	s.points = append(s.points, p)
	s.total += p.amount
	for _, c := range s.cursors {
		if p.at >= c.since {
			c.sum += p.amount
		} else {
			c.from = len(s.points)
		}
	}
}

// changed is called before the amount of a point rises, by less than 0 if it
// falls.
func (s *series) changed(i int, rise int64) {
	s.total += rise
	for _, c := range s.cursors {
		if i >= c.from {
			c.sum += rise
		}
	}
	s.invalidate(i)
}

// invalidate tells the watchers from which point on points have changed.
func (s *series) invalidate(from int) {
	for _, w := range s.watchers {
		w.invalidate(from)
	}
}

// change changes the amount of the point of an entry.
func (s *series) change(at int64, entry uint32, amount int64) {
	s.sort()
	i, _ := slices.BinarySearchFunc(s.points, point{at: at, entry: entry}, comparePoints)
	if i == len(s.points) || s.points[i].entry != entry {
		return
	}
	s.changed(i, amount-s.points[i].amount)
	s.points[i].amount = amount
}

func comparePoints(a, b point) int {
	switch {
	case a.at != b.at:
		return sign(a.at < b.at)
	case a.entry != b.entry:
		return sign(a.entry < b.entry)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// sort puts the points in order, if some were added late.
func (s *series) sort() {
	if !s.unsorted {
		return
	}
	s.unsorted, s.isMixed = false, s.isMixed || s.tried > 0
	if !slices.IsSortedFunc(s.points, comparePoints) {
		slices.SortFunc(s.points, comparePoints)
	}
	s.reset()
}

// reset computes everything anew that follows from the points.
func (s *series) reset() {
	for _, c := range s.cursors {
		c.reset()
	}
	s.invalidate(0)
}

// reset computes the cursor anew.
func (c *cursor) reset() {
	c.from, c.sum = len(c.series.points), 0
	for c.from > 0 && c.series.points[c.from-1].at >= c.since {
		c.from--
		c.sum += c.series.points[c.from].amount
	}
}

// to moves the cursor to a time, and returns the sum from then on.
func (c *cursor) to(since int64) int64 {
	c.series.sort()
	points := c.series.points
	for c.from < len(points) && points[c.from].at < since {
		c.sum -= points[c.from].amount
		c.from++
	}
	for c.from > 0 && points[c.from-1].at >= since {
		c.from--
		c.sum += points[c.from].amount
	}
	c.since = since
	return c.sum
}

// drop forgets the points before a time, once they are half of all.
func (s *series) drop(before int64) {
	s.sort()
	n := 0
	for n < len(s.points) && s.points[n].at < before {
		n++
	}
	if n == 0 || n < len(s.points)/2 {
		return
	}
	for _, w := range s.watchers {
		w.drop(n)
	}
	for _, p := range s.points[:n] {
		s.total -= p.amount
	}
	s.points = slices.Clone(s.points[n:])
	s.reset()
}
