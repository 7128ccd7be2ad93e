package engine

import "slices"

// A decision tries its grants in the fold, so that each is decided beside those
// before it. If they were appended with nothing before them, as nearly always
// in a process that is alone, the fold keeps what was tried and corrects its
// times: folding each grant twice took a third of a decision's time. Otherwise
// what was tried is taken back, and folded from the log.

// try folds an entry that is not in the log yet. r.At must be later than the
// newest timestamp, by as many microseconds as entries were tried before.
func (f *fold) try(r *Record, labels uint32) (ok bool) {
	if _, isKnown := f.find(r.ID); isKnown || f.settles[r.ID] != nil {
		return false
	}
	f.tried++
	f.entry(r, labels, 0)
	return true
}

// takeBack removes what was tried.
func (f *fold) takeBack() {
	if f.tried == 0 {
		return
	}
	kept := len(f.entries) - f.tried
	for _, s := range f.trying {
		s.takeBack(f.base + uint32(kept))
	}
	for i := len(f.entries) - 1; i >= kept; i-- {
		e := &f.entries[i]
		if key := f.labels[e.labels].key; key != nil {
			key.entries = key.entries[:len(key.entries)-1]
		}
		delete(f.leases, f.base+uint32(i))
		f.index(f.long(e.id), 0)
	}
	for i := range f.columns {
		f.columns[i] = f.columns[i][:min(len(f.columns[i]), kept)]
	}
	f.entries = f.entries[:kept]
	f.endTry()
}

func (f *fold) endTry() {
	for _, s := range f.trying {
		s.tried, s.isMixed = 0, false
	}
	clear(f.trying)
	f.trying, f.tried = f.trying[:0], 0
}

// canConfirm reports whether the records of a batch that was appended are just
// those that were tried, with nothing appended before them.
func (f *fold) canConfirm(records []*Record, t *Tail) bool {
	isAlone := !t.More && len(t.Batches) == 0
	isNext := t.Appended && t.Position == f.known.After+1
	if !isAlone || !isNext {
		return false
	}
	if f.tried != len(records) || len(f.lack) > 0 {
		return false
	}
	for _, s := range f.trying {
		if s.isMixed || s.unsorted {
			return false
		}
	}
	for i, r := range records { // whose leases must end after the times that they have got
		if r.Until != 0 && r.Until <= t.At+int64(i) {
			return false
		}
	}
	return true
}

// confirm keeps what was tried as the batch b.
func (f *fold) confirm(records []*Record, b *Batch) {
	first := len(f.entries) - f.tried
	shift := b.At - f.entries[first].at
	for i, r := range records {
		e := &f.entries[first+i]
		e.at, e.position = b.At+int64(i), uint32(b.Position)
		if r.Ref != (ID{}) {
			f.control.serve(r.Ref)
		}
	}
	for _, s := range f.trying {
		s.shift(shift)
	}
	f.maxStamp = max(f.maxStamp, b.At+int64(len(records))-1)
	f.mark(b)
	f.endTry()
}

// takeBack removes the points of entries from a number on, which were added for
// a try.
func (s *series) takeBack(first uint32) {
	if s.isMixed || s.unsorted {
		s.points = slices.DeleteFunc(s.points, func(p point) bool { return p.entry >= first })
		s.total = 0
		for _, p := range s.points {
			s.total += p.amount
		}
		s.unsorted = false
		slices.SortFunc(s.points, comparePoints)
		s.reset()
		return
	}
	kept := len(s.points) - s.tried
	for i, p := range s.points[kept:] {
		s.total -= p.amount
		for _, c := range s.cursors {
			if kept+i >= c.from {
				c.sum -= p.amount
			}
		}
	}
	for _, c := range s.cursors {
		c.from = min(c.from, kept)
	}
	s.invalidate(kept)
	s.points = s.points[:kept]
}

// shift moves the newest points, which were added for a try, to later times.
// Those of leases stay at their ends.
func (s *series) shift(by int64) {
	if s.coverage.inFlight {
		return
	}
	kept := len(s.points) - s.tried
	for i := kept; i < len(s.points); i++ {
		s.points[i].at += by
	}
	s.invalidate(kept)
}
