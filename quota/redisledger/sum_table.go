package redisledger

import "slices"

const maxLabel = 1<<16 - 1

// sumRecord is a record of the log, as little of it as sums need.
type sumRecord struct {
	stamp int64
	group uint32 // its number in the sumTable
	units uint32
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
