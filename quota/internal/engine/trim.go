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
	for i := range f.columns {
		f.columns[i] = slices.Clone(f.columns[i][min(n, len(f.columns[i])):])
	}
	for _, s := range f.series {
		s.drop(before)
	}
	for _, key := range f.byKey {
		key.entries = slices.DeleteFunc(key.entries, func(n uint32) bool { return n < f.base })
	}
	for _, c := range f.clients { // of which a few words stay
		c.forget(f.base)
	}
	maps.DeleteFunc(f.voids, func(_ ID, v voided) bool { return v.at < before })
	maps.DeleteFunc(f.settles, func(_ ID, r *Record) bool { return r.At < before })
	maps.DeleteFunc(f.leases, func(n uint32, until int64) bool { return n < f.base })
	f.control.trim(before)
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
