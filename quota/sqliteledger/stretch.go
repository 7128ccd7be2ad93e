package sqliteledger

import (
	"database/sql/driver"
	"math"
	"sort"
)

// stretch is a run of neighbouring records of a list, as they are in the file:
// where a window begins, so that the next questions need not be asked of it.
type stretch struct {
	before point   // the record before the first; its stamp is the least there is when there is none
	points []point // one at least
	hits   int     // how many questions it has answered
	turn   int     // when it last did
}

func (s *stretch) last() point { return s.points[len(s.points)-1] }

// holds reports whether the first record stamped at or after an instant is in
// the stretch.
func (s *stretch) holds(at int64) bool {
	return len(s.points) > 0 && at > s.before.stamp && at <= s.last().stamp
}

// reach returns the first record at which the total is at least so much, if it
// is in the stretch.
func (s *stretch) reach(total int64) (point, bool) {
	if len(s.points) == 0 || total <= s.before.total || total > s.last().total {
		return point{}, false
	}
	return s.points[sort.Search(len(s.points)-1, func(i int) bool { return s.points[i].total >= total })], true
}

// shift adds delta to the totals from a stamp on.
func (s *stretch) shift(stamp, delta int64) {
	if s.before.stamp >= stamp {
		s.before.total += delta
	}
	for i := range s.points {
		if s.points[i].stamp >= stamp {
			s.points[i].total += delta
		}
	}
}

// Stretches of a list: several windows begin at several places.
const (
	maxStretches = 4
	firstRead    = 4 // points, and twice as many whenever the last ones were used
	maxRead      = 512
)

// stretch returns the stretch that an instant, no later than the newest
// record, lies in, read from the file when it is not known.
func (v view) stretch(at int64) *stretch {
	if v.tail.holds(at) {
		return &v.tail
	}
	v.asked++
	var oldest, behind *stretch
	for i := range v.stretches {
		s := &v.stretches[i]
		switch {
		case s.holds(at):
			s.hits++
			s.turn = v.asked
			return s
		case at > s.before.stamp && (behind == nil || s.last().stamp > behind.last().stamp):
			behind = s
		}
		if oldest == nil || s.turn < oldest.turn {
			oldest = s
		}
	}
	size := firstRead
	switch {
	case behind != nil && 2*behind.hits >= len(behind.points):
		oldest, size = behind, min(2*len(behind.points), maxRead)
	case len(v.stretches) < maxStretches:
		v.stretches = append(v.stretches, stretch{})
		oldest = &v.stretches[len(v.stretches)-1]
	}
	*oldest = v.readStretch(at, size, oldest.points[:0])
	oldest.turn = v.asked
	if len(oldest.points) == 0 { // an error, or a file that is not as this program left it
		v.stretches = nil
		return &stretch{points: []point{v.newest}}
	}
	return oldest
}

// readStretch reads the record before an instant and so many from it on.
func (v view) readStretch(at int64, size int, into []point) stretch {
	s := stretch{before: v.before(at), points: into}
	if s.before == (point{}) {
		s.before.stamp = math.MinInt64
	}
	v.more(&s, at-1, int64(size))
	return s
}

// more appends the records after a stamp to a stretch.
func (v view) more(s *stretch, after, size int64) {
	v.flush()
	v.look(v.kind+"-after", func(row []driver.Value) {
		s.points = append(s.points, point{integer(row[0]), integer(row[1])})
	}, v.id, after, size)
}

// extend reads further points until a total is reached, if that is not far.
func (v view) extend(s *stretch, total int64) {
	missing := total - s.last().total // each record is one unit at least, but for a few
	if missing <= maxRead && len(s.points) <= 4*maxRead {
		v.more(s, s.last().stamp, max(missing, firstRead))
	}
}

// reached returns the first record of a known stretch at which the total is at
// least so much.
func (l *list) reached(total int64) (point, bool) {
	for i := range l.stretches {
		if p, ok := l.stretches[i].reach(total); ok {
			return p, true
		}
	}
	return l.tail.reach(total)
}

// behind returns the known stretch that ends least before a total.
func (l *list) behind(total int64) *stretch {
	var best *stretch
	for i := range l.stretches {
		if s := &l.stretches[i]; s.last().total < total && (best == nil || s.last().total > best.last().total) {
			best = s
		}
	}
	return best
}

// shift adds delta to the known totals from a stamp on.
func (l *list) shift(stamp, delta int64) {
	l.newest.total += delta
	l.tail.shift(stamp, delta)
	for i := range l.stretches {
		l.stretches[i].shift(stamp, delta)
	}
}
