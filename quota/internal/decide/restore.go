package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Restorer computes what a log holds after a restoration. The result depends
// neither on the order in which several clients restore, nor on how often.
type Restorer struct {
	Entries    []quota.Entry // what the log holds, oldest first; Restore replaces it
	Statements               // all about the log so far; Restore replaces them
	Epoch      uint64        // the log's; Restore may renew it
	Now        time.Time     // the present time on the ledger's clock
	Oldest     time.Time     // the log keeps no entries that are older

	taken map[int64]bool // the stamps of Entries
}

// Restore merges a restoration into the log. It adds the entries that are
// missing, and raises those that have fewer units. Then it adds notes for what
// the statements say that the entries do not add up to; the notes of earlier
// restorations are computed anew. Restored.Known is the newest of the restored
// entries, or else of the log's.
func (o *Restorer) Restore(r *quota.Restoration) quota.Restored {
	var done quota.Restored
	o.removeNotes(r.Heard)
	present := o.renew(r)
	o.taken = map[int64]bool{}
	for i := range o.Entries {
		o.taken[o.Entries[i].At.UnixMicro()] = true
	}
	stamped := o.mergeEntries(r.Entries, &done)
	heard := slices.Clone(r.Heard)
	for i := range heard {
		if at, ok := stamped[heard[i].At.UnixMicro()]; ok {
			heard[i].At, heard[i].Since = at, heard[i].Since.Add(at.Sub(heard[i].At))
		}
	}
	o.mergeHeard(heard)
	o.mergeLives(r.Lives, present)
	o.addNotes(&done)
	o.sort()
	if n := len(o.Entries); n > 0 && done.Known.ID == (quota.ID{}) {
		done.Known.ID, done.Known.At = o.Entries[n-1].ID, o.Entries[n-1].At
	}
	return done
}

// removeNotes removes the notes of earlier restorations.
func (o *Restorer) removeNotes(more []quota.Heard) {
	clients := map[uint64]bool{}
	for _, heard := range [][]quota.Heard{o.Heard, more} {
		for i := range heard {
			clients[heard[i].Client] = true
		}
	}
	o.Entries = slices.DeleteFunc(slices.Clone(o.Entries), func(e quota.Entry) bool { return clients[e.ID.Client] })
}

// shortID is what every ledger keeps of an id.
type shortID struct {
	client uint64
	seq    uint32
}

func short(id quota.ID) shortID { return shortID{id.Client, uint32(id.Seq)} }

// mergeEntries returns the timestamps that the log has for the restored ones.
func (o *Restorer) mergeEntries(entries []quota.Entry, done *quota.Restored) (stamped map[int64]time.Time) {
	stamped = map[int64]time.Time{}
	first, units := map[shortID]int{}, map[shortID]quota.Units{} // additions have the id of their call
	for i := range o.Entries {
		id := short(o.Entries[i].ID)
		if _, ok := first[id]; !ok {
			first[id] = i
		}
		units[id] += o.Entries[i].Units
	}
	for _, e := range entries {
		id, at := short(e.ID), e.At.UnixMicro()
		i, found := first[id]
		known := &done.Known
		switch {
		case found:
			have, more := &o.Entries[i], e.Units-units[id]
			stamped[at] = have.At
			if !have.At.Before(known.At) {
				known.ID, known.At = have.ID, have.At
			}
			if more > 0 {
				have.Units, have.Calls, have.Kind = min(have.Units+more, quota.MaxUnits), max(have.Calls, e.Calls), e.Kind
				units[id], done.Entries, done.Units = e.Units, done.Entries+1, done.Units+more
			}
		case !e.At.Before(o.Oldest):
			if e.At.After(o.Now.Add(quota.MaxStepBack)) { // the clock was wrong when it was stamped
				e.At = o.Now
			}
			e.At = o.freeFrom(e.At.UnixMicro(), 1)
			stamped[at] = e.At
			if !e.At.Before(known.At) {
				known.ID, known.At = e.ID, e.At
			}
			first[id], units[id] = len(o.Entries), e.Units
			o.Entries = append(o.Entries, e)
			done.Entries, done.Units = done.Entries+1, done.Units+e.Units
		}
	}
	return stamped
}

// mergeHeard keeps the latest statement of each client about each budget and life of
// the log, those first whose notes later ones may count.
func (o *Restorer) mergeHeard(more []quota.Heard) {
	var merged []quota.Heard
	for _, h := range append(slices.Clone(o.Heard), more...) {
		if h.At.Before(o.Oldest) || h.At.After(o.Now.Add(quota.MaxStepBack)) {
			continue
		}
		same := func(have quota.Heard) bool {
			return have.Client == h.Client && have.Budget == h.Budget && have.Epoch == h.Epoch
		}
		if i := slices.IndexFunc(merged, same); i < 0 {
			merged = append(merged, h)
		} else if !h.At.Before(merged[i].At) {
			merged[i] = h
		}
	}
	broader := func(h *quota.Heard) (n int) {
		method, caller := h.Note()
		for i := range merged {
			if merged[i].Coverage.Covers(method, caller) {
				n++
			}
		}
		return n
	}
	slices.SortFunc(merged, func(a, b quota.Heard) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(broader(&b), broader(&a)), b.Since.Compare(a.Since),
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Epoch, b.Epoch))
	})
	o.Heard = merged
}

// freeFrom takes the first free stamp from a stamp on, in steps.
func (o *Restorer) freeFrom(stamp, step int64) time.Time {
	for o.taken[stamp] {
		stamp += step
	}
	o.taken[stamp] = true
	return Time(stamp)
}

func (o *Restorer) sort() {
	slices.SortFunc(o.Entries, func(a, b quota.Entry) int { return a.At.Compare(b.At) })
}
