package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// renew begins a new life of the log if an older copy has taken its place. What the
// copy holds has been there in both lives. It returns the first time at which a grant
// can be stamped.
func (o *Restorer) renew(r *quota.Restoration) (present time.Time) {
	present = o.Now
	for i := range o.Entries {
		if at := o.Entries[i].At; !at.Before(present) {
			present = at.Add(time.Microsecond)
		}
	}
	isKnown := func(life quota.Life) bool { return life.Epoch == o.Epoch }
	if !r.Lost || !slices.ContainsFunc(r.Lives, isKnown) {
		return present
	}
	ended := o.Epoch
	o.Epoch = quota.NewEpoch()
	o.Lives = slices.Clone(o.Lives)
	for i := range o.Entries {
		client := o.Entries[i].ID.Client
		o.Lives = append(o.Lives, quota.Life{Client: client, Epoch: ended, Since: o.Entries[i].At}, quota.Life{Client: client, Epoch: o.Epoch, Since: present})
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
	lives = slices.DeleteFunc(lives, func(life quota.Life) bool { return !used[life.Client] })
	same := func(a, b quota.Life) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Epoch, b.Epoch))
	}
	slices.SortFunc(lives, func(a, b quota.Life) int { return cmp.Or(same(a, b), a.Since.Compare(b.Since)) })
	o.Lives = slices.CompactFunc(lives, func(a, b quota.Life) bool { return same(a, b) == 0 })
}

// presence is since when each life of a log has held entries, by their ids; with
// Seq 0, all of the client's that are not there themselves.
type presence map[shortID]map[uint64]time.Time

func (o *Restorer) presence() presence {
	p := presence{}
	for _, life := range o.Lives {
		id := short(quota.ID{Client: life.Client, Seq: life.Seq})
		if p[id] == nil {
			p[id] = map[uint64]time.Time{}
		}
		p[id][life.Epoch] = life.Since
	}
	return p
}

// held reports whether the log of a statement held an entry of its window. If no
// restoration has said when the client's entries came there, it did.
func (p presence) held(id quota.ID, h *quota.Heard) bool {
	lives, known := p[short(id)]
	if !known {
		lives, known = p[short(quota.ID{Client: id.Client})]
	}
	since, held := lives[h.Epoch]
	return !known || h.Epoch == 0 || held && !h.At.Before(since)
}

// heldAll reports whether the log of a later statement held what an earlier one
// counted, as entries or as a note.
func (p presence) heldAll(earlier, later *quota.Heard) bool {
	return earlier.Epoch == later.Epoch || p.held(quota.ID{Client: earlier.Client}, later)
}
