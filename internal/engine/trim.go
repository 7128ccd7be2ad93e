package engine

import (
	"maps"
	"slices"
)

// trim forgets what is older than a time, once that is much.
func (f *fold) trim(before int64) {
	n := 0
	for n < len(f.entries) && f.entries[n].at < before {
		n++
	}
	if n == 0 || n < len(f.entries)/2 {
		return
	}
	f.entries = slices.Clone(f.entries[n:])
	f.base += uint32(n)
	f.trimmed = before
	for i := range f.columns {
		f.columns[i] = slices.Clone(f.columns[i][min(n, len(f.columns[i])):])
	}
	for _, s := range f.series {
		s.drop(before)
	}
	for _, key := range f.byKey {
		key.entries = slices.DeleteFunc(key.entries, func(n uint32) bool { return n < f.base })
	}
	f.trimLabels()
	for _, c := range f.clients { // of which a few words stay
		c.forget(f.base)
	}
	maps.DeleteFunc(f.voids, func(_ ID, v voided) bool { return v.at < before })
	maps.DeleteFunc(f.settles, func(_ ID, r *Record) bool { return r.At < before })
	maps.DeleteFunc(f.leases, func(n uint32, until int64) bool { return n < f.base })
	f.control.trim(before)
}

// minLabels is how many labels a fold keeps, whether entries have them or not.
const minLabels = 1024

// trimLabels forgets labels that no entry has any more, and their keys, once
// they are most of all: a tenant that has left, or the job of a past day.
func (f *fold) trimLabels() {
	used := make([]bool, len(f.labels))
	count := 0
	for i := range f.entries {
		if label := f.entries[i].labels; !used[label] {
			used[label] = true
			count++
		}
	}
	if len(used) < minLabels || count > len(used)/2 {
		return
	}
	numbers, kept := make([]uint32, len(used)), make([]foldLabels, 0, count)
	maps.DeleteFunc(f.labelIDs, func(_ string, n uint32) bool { return !used[n] })
	for n := range f.labels {
		if numbers[n] = uint32(len(kept)); used[n] {
			kept = append(kept, f.labels[n])
		}
	}
	for packed, n := range f.labelIDs {
		f.labelIDs[packed] = numbers[n]
	}
	for i := range f.entries {
		f.entries[i].labels = numbers[f.entries[i].labels]
	}
	f.labels, f.lastLabels = kept, 0
	maps.DeleteFunc(f.byKey, func(_ string, key *keyRecords) bool {
		return len(key.entries) == 0 &&
			len(key.series) == 0
	})
}

// forget drops what is before a number.
func (c *clientRecords) forget(base uint32) {
	n := 0
	for n < len(c.entries) && c.entries[n] < base {
		n++
	}
	c.entries, c.from = slices.Clone(c.entries[n:]), c.from+uint64(n)
	maps.DeleteFunc(c.others, func(_ uint64, n uint32) bool { return n < base })
}
