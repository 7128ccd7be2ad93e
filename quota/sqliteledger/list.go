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
	kind     string // which statements are its: "entry" for the log itself, else "record"
	row      int64  // in lists, 0 before it is written
	id       int64  // of the log itself, else the row
	use      decide.Use
	changed  bool // use is to be written
	newest   point
	trimAt   int64 // nothing need be trimmed before

	stretches []stretch // what is known of the rest
	asked     int       // how many questions stretches have answered
	tail      stretch   // the newest records of this handle; no points: none
}

// turn begins another generation of the list's use when the present one is
// over, and returns the longest horizon in use.
func (l *list) turn(now int64) int64 {
	if l.use.Rotate(now) {
		l.changed = true
	}
	return l.use.Horizon()
}

// push notes a record that was added. What an empty window then holds is
// answered from the tail, without a look into the file.
func (l *list) push(p point) {
	const most = 256
	switch n := len(l.tail.points); {
	case n == 0 && l.newest == point{}:
		l.tail.before = point{stamp: math.MinInt64}
	case n == 0:
		l.tail.before = l.newest
	case n == 2*most:
		l.tail.before = l.tail.points[most-1]
		l.tail.points = append(l.tail.points[:0], l.tail.points[most:]...)
	}
	l.tail.points = append(l.tail.points, p)
	l.newest = p
}

// forget drops what is known of the records but the newest.
func (l *list) forget() {
	l.stretches, l.tail, l.trimAt = nil, stretch{}, 0
}

// point is a running total and the stamp that it was reached at.
type point struct{ stamp, total int64 }

// amount returns what an entry counts for here.
func amount(c *quota.Coverage, units, calls int64) int64 {
	if c.Measure == quota.Calls {
		return calls
	}
	return units
}

// view is a list in one transaction. It answers through the tables' keys, at a cost
// that does not depend on the length of the log, and most often from a stretch that is known.
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
	s := v.stretch(at)
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].stamp >= at })
	if i == 0 {
		return s.before.total
	}
	return s.points[i-1].total
}

// before reads the newest record stamped before an instant, or zeros, and
// after the oldest one stamped after it.
func (v view) before(at int64) point { return v.point("-before", at) }
func (v view) after(at int64) point  { return v.point("-after", at, int64(1)) }

func (v view) point(query string, args ...driver.Value) (p point) {
	v.flush()
	v.look(v.kind+query, func(row []driver.Value) { p = point{integer(row[0]), integer(row[1])} }, append([]driver.Value{v.id}, args...)...)
	return p
}

// Reach implements decide.List. Where the record is not in a stretch that is
// known or close to one it narrows down the stamps between two records, by
// halves and in between by the share of the total that is sought, which is
// where the record is when the calls come evenly.
func (v view) Reach(total int64) int64 {
	p, ok := v.reached(total)
	if s := v.behind(total); !ok && s != nil {
		v.extend(s, total)
		p, ok = v.reached(total)
	}
	if ok {
		return p.stamp
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

// trimChunk bounds how many records one transaction deletes from one list.
const trimChunk = 512

// trim deletes what no window can see any more, but for the newest of it,
// which holds the total to subtract. It waits until a sixteenth of what is kept
// is due, since every deletion writes a page of its own.
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

// due returns when a record is worth deleting: when the one after it can be
// subtracted instead, and a little later.
func (v view) due(p point, horizon int64) int64 {
	next := v.after(p.stamp)
	if next.stamp == 0 {
		next.stamp = v.now
	}
	kept := decide.Retain(horizon)
	return next.stamp + kept + kept/16
}

// computed is a list of a coverage that the ledger keeps none of, read from
// the log. It is for Standings, which writes nothing.
type computed []point

// compute reads what coverage counts in a log since an instant.
func (t *tx) compute(log int64, coverage *quota.Coverage, since int64) computed {
	var c computed
	total := int64(0)
	labels := t.covered(coverage)
	t.each("list-compute", func(row []driver.Value) {
		total += integer(row[1])
		c = append(c, point{integer(row[0]), total})
	}, log, since, coverage.Measure == quota.Calls, labels)
	return c
}

// Newest implements decide.List.
func (c computed) Newest() (stamp, total int64) {
	if len(c) == 0 {
		return 0, 0
	}
	return c[len(c)-1].stamp, c[len(c)-1].total
}

// Before implements decide.List.
func (c computed) Before(at int64) int64 {
	_, total := c[:sort.Search(len(c), func(i int) bool { return c[i].stamp >= at })].Newest()
	return total
}

// Reach implements decide.List.
func (c computed) Reach(total int64) int64 {
	return c[sort.Search(len(c)-1, func(i int) bool { return c[i].total >= total })].stamp
}

var errCoverage = errors.New("a coverage that cannot be read")

// parseCoverage reads a coverage from its key: words in Go's quotes, each list
// of them behind its letter.
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
