package sqliteledger

import (
	"database/sql/driver"
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// list is the running total of what one coverage of a log counts.
type list struct {
	coverage *quota.Coverage
	key      string // of the coverage
	kind     string // prefix of its statements: "entry" for log.all, else "record"
	row      int64  // in the table lists; 0 before it is written
	id       int64  // the log's for log.all, else the row
	use      decide.RecentHorizon
	changed  bool // use has not been written
	newest   record
	trimAt   int64 // when to trim next

	segments []segment // cached records
	asked    int       // how many questions were asked of segments
	tail     segment   // the newest records that this Ledger added
}

// rotate rotates the use of the list and returns the longest horizon in use.
func (l *list) rotate(now int64) int64 {
	if l.use.Rotate(now) {
		l.changed = true
	}
	return l.use.Horizon()
}

// push caches a record that was added, so that questions about records since
// the file was opened need no query.
func (l *list) push(r record) {
	const most = 256
	switch n := len(l.tail.records); {
	case n == 0 && l.newest == record{}:
		l.tail.before = record{stamp: math.MinInt64}
	case n == 0:
		l.tail.before = l.newest
	case n == 2*most:
		l.tail.before = l.tail.records[most-1]
		l.tail.records = append(l.tail.records[:0], l.tail.records[most:]...)
	}
	l.tail.records = append(l.tail.records, r)
	l.newest = r
}

// dropCache drops the cached records, except the newest.
func (l *list) dropCache() {
	l.segments = nil
	l.tail = segment{}
	l.trimAt = 0
}

// record is a stamp and the running total at it.
type record struct{ stamp, total int64 }

// view is a list in a transaction. It reads the tables by their keys, at a cost
// that does not depend on the length of the log, and usually finds the records
// in a cached segment.
type view struct {
	*tx
	*list
}

var _ decide.List = view{}

// Newest implements decide.List.
func (v view) Newest() (stamp, total int64) { return v.newest.stamp, v.newest.total }

// Before implements decide.List.
func (v view) Before(at int64) int64 {
	if at > v.newest.stamp {
		return v.newest.total
	}
	s := v.segment(at)
	i := sort.Search(len(s.records), func(i int) bool { return s.records[i].stamp >= at })
	if i == 0 {
		return s.before.total
	}
	return s.records[i-1].total
}

// before returns the newest record stamped before an instant, and after returns
// the oldest one stamped after it. If there is none, they return zeros; but
// before the first entry, the total of those that the log has dropped, which
// can be within a window if the clock was ahead.
func (v view) before(at int64) record {
	r := v.readRecord("-before", at)
	if r == (record{}) && v.list.kind == "entry" {
		v.lookup("entry-dropped", func(row []driver.Value) { r.total = integer(row[0]) }, v.id)
	}
	return r
}

func (v view) after(at int64) record { return v.readRecord("-after", at, int64(1)) }

func (v view) readRecord(query string, args ...driver.Value) (r record) {
	v.flush()
	args = append([]driver.Value{v.id}, args...)
	v.lookup(v.kind+query, func(row []driver.Value) { r = record{integer(row[0]), integer(row[1])} }, args...)
	return r
}

// Reach implements decide.List. If the record is neither in a cached segment
// nor close to one, Reach searches the stamps between two records, alternately
// by bisection and by interpolation of the total, which is exact for evenly
// spaced calls.
func (v view) Reach(total int64) int64 {
	r, ok := v.reachCached(total)
	if s := v.segmentBefore(total); !ok && s != nil {
		v.extend(s, total)
		r, ok = v.reachCached(total)
	}
	if ok {
		return r.stamp
	}
	low, high := v.after(math.MinInt64), v.newest
	if low.total >= total {
		return low.stamp
	}
	for halve := false; v.err == nil && high.stamp-low.stamp > 1; halve = !halve {
		span := high.stamp - low.stamp
		part := span / 2
		if !halve {
			part = int64(float64(span) * float64(total-low.total) / float64(high.total-low.total))
			part = min(max(part, 1), span-1)
		}
		middle := low.stamp + part
		if below := v.before(middle + 1); below.total >= total {
			high = below
			continue
		}
		next := v.after(middle)
		if next.total >= total {
			return next.stamp
		}
		low = next
	}
	return high.stamp
}

// trimChunk is the most records that one transaction deletes from one list.
const trimChunk = 512

// trim deletes what no window can see, except the newest such record, which
// holds the total to subtract. It waits until a sixteenth of what is kept has
// expired, because every deletion writes a page.
func (v view) trim(horizon int64) {
	if v.now < v.trimAt {
		return
	}
	oldest := v.after(math.MinInt64)
	if v.trimAt = v.due(oldest, horizon); v.now < v.trimAt {
		return
	}
	floor := v.before(v.now - decide.Retain(horizon) + 1)
	if v.exec(v.kind+"-trim", v.id, floor.stamp, int64(trimChunk)) < trimChunk {
		v.trimAt = v.due(floor, horizon)
	}
	if v.kind == "entry" {
		v.exec("sums-trim", v.id)
	}
}

// due returns when to delete a record: a while after its successor can be
// subtracted instead.
func (v view) due(r record, horizon int64) int64 {
	next := v.after(r.stamp)
	if next.stamp == 0 {
		next.stamp = v.now
	}
	kept := decide.Retain(horizon)
	return next.stamp + kept + kept/16
}

// computedList is a list that is computed from the entries, for Standings,
// which writes nothing.
type computedList []record

// computeList computes what a coverage counts in a log since an instant.
func (t *tx) computeList(log int64, coverage *quota.Coverage, since int64) computedList {
	var c computedList
	total := int64(0)
	labels := t.coveredLabels(coverage)
	t.query("list-compute", func(row []driver.Value) {
		total += integer(row[1])
		c = append(c, record{integer(row[0]), total})
	}, log, since, coverage.Measure == quota.Calls, labels)
	return c
}

// Newest implements decide.List.
func (c computedList) Newest() (stamp, total int64) {
	if len(c) == 0 {
		return 0, 0
	}
	return c[len(c)-1].stamp, c[len(c)-1].total
}

// Before implements decide.List.
func (c computedList) Before(at int64) int64 {
	_, total := c[:sort.Search(len(c), func(i int) bool { return c[i].stamp >= at })].Newest()
	return total
}

// Reach implements decide.List.
func (c computedList) Reach(total int64) int64 {
	return c[sort.Search(len(c)-1, func(i int) bool { return c[i].total >= total })].stamp
}

var errCoverage = errors.New("a malformed coverage")

// parseCoverage parses the key of a coverage: lists of words in Go's quotes,
// each after its letter.
func parseCoverage(key string) (*quota.Coverage, error) {
	var c quota.Coverage
	rest, counted := strings.CutPrefix(key, "calls")
	if counted {
		c.Measure = quota.Calls
	}
	lists := map[byte]*[]string{'m': &c.Methods, 'x': &c.Except, 'l': &c.Lanes, 'r': &c.Regions}
	for rest != "" {
		into := lists[rest[0]]
		if into == nil {
			return nil, errCoverage
		}
		for rest = rest[1:]; strings.HasPrefix(rest, `"`); {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, errCoverage
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, errCoverage
			}
			*into, rest = append(*into, word), rest[len(quoted):]
		}
	}
	made := quota.NewCoverage(c)
	if made.Key() != key {
		return nil, errCoverage
	}
	return made, nil
}
