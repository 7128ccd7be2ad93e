package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// nameOlder states that the life with the epoch last held the entries that are older
// than the log's own epoch.
func (o *Restorer) nameOlder(last uint64) {
	if last == 0 || last == o.Epoch {
		return
	}
	before, lives := o.presence(), slices.Clone(o.Lives)
	for i := range o.Entries {
		if e := &o.Entries[i]; e.At.Before(o.Since) && before.of(e.ID).since == nil {
			lives = append(lives, quota.Life{Client: e.ID.Client, Epoch: last, Since: e.At}, quota.Life{Client: e.ID.Client, Epoch: o.Epoch, Since: o.Since})
		}
	}
	o.Lives = compact(lives)
}

// renew begins a new life of a log that has lost entries, if an older copy has taken
// its place. What the copy holds has been there in both lives. It returns the first
// time at which a grant can be stamped.
func (o *Restorer) renew(r *quota.Restoration, lost bool) (present time.Time) {
	present = o.Now
	for i := range o.Entries {
		if at := o.Entries[i].At; !at.Before(present) {
			present = at.Add(time.Microsecond)
		}
	}
	isKnown := func(life quota.Life) bool { return life.Epoch == o.Epoch }
	if !lost || !slices.ContainsFunc(r.Lives, isKnown) {
		return present
	}
	ended, before := o.Epoch, o.presence()
	o.Epoch = quota.NewEpoch()
	o.Lives = slices.Clone(o.Lives)
	for i := range o.Entries {
		e := &o.Entries[i]
		first := uint64(before.of(e.ID).first)
		o.Lives = append(o.Lives, quota.Life{Client: e.ID.Client, Seq: first, Epoch: ended, Since: e.At},
			quota.Life{Client: e.ID.Client, Seq: first, Epoch: o.Epoch, Since: present})
	}
	return present
}

// mergeLives keeps the earliest statement about each life and client, and adds
// that the present life has held what a restoration names since now. It drops those
// of which the log has no entry and no statement.
func (o *Restorer) mergeLives(more []quota.Life, present time.Time) {
	lives := append(slices.Clone(o.Lives), more...)
	for _, life := range more {
		life.Epoch, life.Since = o.Epoch, present
		lives = append(lives, life)
	}
	used := map[uint64]bool{}
	for i := range o.Entries {
		used[o.Entries[i].ID.Client] = true
	}
	for i := range o.Heard {
		used[o.Heard[i].Client] = true
	}
	o.Lives = compact(slices.DeleteFunc(lives, func(life quota.Life) bool { return !used[life.Client] }))
}

// compact sorts lives, and keeps the earliest about each client's entries and epoch.
func compact(lives []quota.Life) []quota.Life {
	same := func(a, b quota.Life) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Epoch, b.Epoch))
	}
	slices.SortFunc(lives, func(a, b quota.Life) int { return cmp.Or(same(a, b), a.Since.Compare(b.Since)) })
	return slices.CompactFunc(lives, func(a, b quota.Life) bool { return same(a, b) == 0 })
}

// presence is since when each life of a log has held entries.
type presence struct {
	epoch uint64           // of the log
	runs  map[uint64][]run // by client, oldest first
}

// run is what the lives hold of a client's entries from a sequence number on, up to
// the next run.
type run struct {
	first uint32
	since map[uint64]time.Time // by epoch; nil if no restoration has said it
}

func (o *Restorer) presence() presence {
	p := presence{o.Epoch, map[uint64][]run{}}
	for _, life := range o.Lives { // sorted by mergeLives
		runs, first := p.runs[life.Client], uint32(life.Seq)
		if len(runs) == 0 || runs[len(runs)-1].first != first {
			runs = append(runs, run{first, map[uint64]time.Time{}})
			p.runs[life.Client] = runs
		}
		runs[len(runs)-1].since[life.Epoch] = life.Since
	}
	return p
}

// of returns the run of an entry.
func (p presence) of(id quota.ID) (of run) {
	for _, r := range p.runs[id.Client] {
		if r.first <= uint32(id.Seq) {
			of = r
		}
	}
	return of
}

// held reports whether the log of a statement held an entry of its window. If no
// restoration has said when the client's entries came there, they are in the present
// log alone, as far as is known.
func (p presence) held(id quota.ID, h *quota.Heard) bool {
	r := p.of(id)
	since, held := r.since[h.Epoch]
	if r.since == nil {
		held = h.Epoch == p.epoch
	}
	return h.Epoch == 0 || held && !h.At.Before(since)
}

// heldAll reports whether the log of a later statement held what an earlier one
// counted, as entries or as a note: the host that made the earlier one had restored
// it there since.
func (p presence) heldAll(earlier, later *quota.Heard) bool {
	host := quota.ID{Client: earlier.Client}
	since := p.of(host).since[later.Epoch]
	isOlder := !since.IsZero() && !since.After(earlier.At)
	return earlier.Epoch == later.Epoch || !isOlder && p.held(host, later)
}
