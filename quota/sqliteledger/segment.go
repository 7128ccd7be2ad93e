package sqliteledger

import (
	"database/sql/driver"
	"math"
	"sort"
)

// segment caches consecutive records of a list around the beginning of a
// window, where the next questions will be.
type segment struct {
	before  record   // the record before the first; if there is none, its stamp is the minimum
	records []record // none in the zero segment
	hits    int      // how many questions it has answered
	lastHit int      // the value of list.asked when it last did
}

func (s *segment) last() record { return s.records[len(s.records)-1] }

// contains reports whether the first record stamped at or after an instant is
// in the segment.
func (s *segment) contains(at int64) bool {
	return len(s.records) > 0 && at > s.before.stamp && at <= s.last().stamp
}

// reach returns the first record with at least a total, if it is in
// the segment.
func (s *segment) reach(total int64) (record, bool) {
	if len(s.records) == 0 || total <= s.before.total || total > s.last().total {
		return record{}, false
	}
	return s.records[sort.Search(len(s.records)-1, func(i int) bool { return s.records[i].total >= total })], true
}

// adjust adds delta to the totals at and after a stamp.
func (s *segment) adjust(stamp, delta int64) {
	if s.before.stamp >= stamp {
		s.before.total += delta
	}
	for i := range s.records {
		if s.records[i].stamp >= stamp {
			s.records[i].total += delta
		}
	}
}

// A list has several segments because several windows begin at several places.
const (
	maxSegments = 4
	firstRead   = 4 // records; a segment that was used is followed by one twice as long
	maxRead     = 512
)

// segment returns the segment that contains an instant, which must not be after
// the newest record. It reads the segment if it is not cached.
func (v view) segment(at int64) *segment {
	if v.tail.contains(at) {
		return &v.tail
	}
	v.asked++
	var oldest, behind *segment
	for i := range v.segments {
		s := &v.segments[i]
		switch {
		case s.contains(at):
			s.hits++
			s.lastHit = v.asked
			return s
		case at > s.before.stamp && (behind == nil || s.last().stamp > behind.last().stamp):
			behind = s
		}
		if oldest == nil || s.lastHit < oldest.lastHit {
			oldest = s
		}
	}
	size := firstRead
	switch {
	case behind != nil && 2*behind.hits >= len(behind.records):
		oldest, size = behind, min(2*len(behind.records), maxRead)
	case len(v.segments) < maxSegments:
		v.segments = append(v.segments, segment{})
		oldest = &v.segments[len(v.segments)-1]
	}
	*oldest = v.readSegment(at, size, oldest.records[:0])
	oldest.lastHit = v.asked
	if len(oldest.records) == 0 { // after an error, or in a corrupt file
		v.segments = nil
		return &segment{records: []record{v.newest}}
	}
	return oldest
}

// readSegment reads the record before an instant and size records from it on.
func (v view) readSegment(at int64, size int, into []record) segment {
	s := segment{before: v.before(at), records: into}
	if s.before == (record{}) {
		s.before.stamp = math.MinInt64
	}
	v.appendRecords(&s, at-1, int64(size))
	return s
}

// appendRecords appends size records after a stamp to a segment.
func (v view) appendRecords(s *segment, after, size int64) {
	v.flush()
	v.lookup(v.kind+"-after", func(row []driver.Value) {
		s.records = append(s.records, record{integer(row[0]), integer(row[1])})
	}, v.id, after, size)
}

// extend reads further records until a total is reached, if that is not far.
func (v view) extend(s *segment, total int64) {
	missing := total - s.last().total // nearly every record counts at least 1
	if missing <= maxRead && len(s.records) <= 4*maxRead {
		v.appendRecords(s, s.last().stamp, max(missing, firstRead))
	}
}

// reachCached returns the first record with at least a total, if it is cached.
func (l *list) reachCached(total int64) (record, bool) {
	for i := range l.segments {
		if r, ok := l.segments[i].reach(total); ok {
			return r, true
		}
	}
	return l.tail.reach(total)
}

// segmentBefore returns the cached segment that ends closest before a total.
func (l *list) segmentBefore(total int64) *segment {
	var best *segment
	for i := range l.segments {
		if s := &l.segments[i]; s.last().total < total && (best == nil || s.last().total > best.last().total) {
			best = s
		}
	}
	return best
}

// adjust adds delta to the cached totals at and after a stamp.
func (l *list) adjust(stamp, delta int64) {
	l.newest.total += delta
	l.tail.adjust(stamp, delta)
	for i := range l.segments {
		l.segments[i].adjust(stamp, delta)
	}
}
