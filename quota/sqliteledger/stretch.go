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

// Stretches of a list: several windows begin at several places.
const (
	maxStretches = 4
	firstRead    = 4 // points, and twice as many whenever the last ones were used
	maxRead      = 512
)

// stretch returns the stretch that an instant, no later than the newest
// record, lies in, read from the file when it is not known.
func (v view) stretch(at int64) *stretch {
	v.turn++
	var oldest, behind *stretch
	for i := range v.stretches {
		s := &v.stretches[i]
		switch {
		case at > s.before.stamp && at <= s.last().stamp:
			s.hits++
			s.turn = v.turn
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
	oldest.turn = v.turn
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
		if s := &l.stretches[i]; total > s.before.total && total <= s.last().total {
			return s.points[sort.Search(len(s.points)-1, func(i int) bool { return s.points[i].total >= total })], true
		}
	}
	return point{}, false
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
	for i := range l.stretches {
		s := &l.stretches[i]
		if s.before.stamp >= stamp {
			s.before.total += delta
		}
		for j := range s.points {
			if s.points[j].stamp >= stamp {
				s.points[j].total += delta
			}
		}
	}
}
