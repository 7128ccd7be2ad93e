package redisledger

import (
	"cmp"
	"math"
	"slices"
)

const maxLabel = 1<<16 - 1

// sumPage is records of a log, oldest first, as little of them as sums need.
type sumPage struct {
	since   int64 // a stamp, of the first record
	records []sumRecord
}

// sumRecord takes 12 bytes, since a million of them are cached.
type sumRecord struct {
	after uint32 // microseconds, after the first record of its page
	group uint32 // its number in the sumTable
	units uint32
}

// takes reports whether a page can have a stamp: it is within 71 minutes.
func (p *sumPage) takes(stamp int64) bool {
	return len(p.records) == 0 || stamp-p.since <= math.MaxUint32
}

func (p *sumPage) add(stamp int64, group, units uint32) {
	if len(p.records) == 0 {
		p.since = stamp
	}
	p.records = append(p.records, sumRecord{uint32(stamp - p.since), group, units})
}

// between returns the records at or after a stamp and before another.
func (p sumPage) between(from, until int64) sumPage {
	place := func(stamp int64) int {
		i, _ := slices.BinarySearchFunc(p.records, stamp-p.since, func(r sumRecord, after int64) int { return cmp.Compare(int64(r.after), after) })
		return i
	}
	end := place(until)
	p.records = p.records[min(place(from), end):end]
	return p
}

// sumGroup is what the records of one sum share.
type sumGroup struct {
	label int64 // 0 if unknown
	kind  int64 // a quota.EntryKind; as wide as the others, which hashes in half the time
	calls int64 // that each record counts
}

// sumTable numbers groups of records, and has the labels of them.
type sumTable struct {
	groups  []sumGroup
	numbers map[sumGroup]uint32
	plain   []uint32        // by label: 1 more than the number of the group of its plain calls
	labels  map[int64]label // by label number, as far as they were read
}

// number returns the number of a group.
func (t *sumTable) number(g sumGroup) uint32 {
	plain := g == sumGroup{label: g.label, calls: 1}
	if plain && t.plain != nil && t.plain[g.label] > 0 {
		return t.plain[g.label] - 1
	}
	n, known := t.numbers[g]
	if !known {
		if t.numbers == nil {
			t.numbers, t.plain = map[sumGroup]uint32{}, make([]uint32, maxLabel+1)
		}
		n = uint32(len(t.groups))
		t.numbers[g], t.groups = n, append(t.groups, g)
	}
	if plain {
		t.plain[g.label] = n + 1
	}
	return n
}

// unread returns the label numbers whose labels were not read yet.
func (t *sumTable) unread() []int64 {
	var numbers []int64
	for _, g := range t.groups {
		if _, known := t.labels[g.label]; !known && g.label != 0 {
			numbers = append(numbers, g.label)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
