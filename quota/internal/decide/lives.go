package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// nameOlder states that the life with the epoch last held the entries that are
// older than the log's own epoch, since they were stamped, unless said tells
// since when.
func (o *Restorer) nameOlder(last uint64, said []quota.Life) {
	if last == 0 || last == o.Epoch {
		return
	}
	isSaid := map[uint64]bool{}
	for i := range said {
		if said[i].Epoch == last {
			isSaid[said[i].Client] = true
		}
	}
	before, lives := o.presence(), slices.Clone(o.Lives)
	for i := range o.Entries {
		if e := &o.Entries[i]; e.At.Before(o.Since) && !isSaid[e.ID.Client] && before.runOf(e.ID).since == nil {
			lives = append(lives, quota.Life{Client: e.ID.Client, Epoch: last, Since: e.At}, quota.Life{Client: e.ID.Client, Epoch: o.Epoch, Since: o.Since})
		}
	}
	o.Lives = compact(lives)
}

// renew begins a new life of a log that has lost entries, if an older copy has
// taken its place. What the copy holds has been there in both lives. It returns
// the first time at which a grant can be stamped.
func (o *Restorer) renew(r *quota.Restoration, lost bool) (present time.Time) {
	present = o.Now
	for i := range o.Entries {
		if at := o.Entries[i].At; !at.Before(present) {
			present = at.Add(time.Microsecond)
		}
	}
	if !lost {
		return present
	}
	ended, before := o.Epoch, o.presence()
	isKnown := slices.ContainsFunc(r.Lives, func(life quota.Life) bool { return life.Epoch == ended }) ||
		slices.ContainsFunc(r.Heard, func(h quota.WindowUse) bool { return h.Epoch == ended })
	isRenewed := isKnown || o.isOlder(&r.Known, &before)
	if isKnown || len(o.Entries) > 0 { // else it is a new log, which lacks nothing that it was given
		o.findGap(r, &before, present, isRenewed)
	}
	if !isRenewed {
		return present
	}
	o.Epoch = quota.NewEpoch()
	o.Lives = slices.Clone(o.Lives)
	for i := range o.Entries {
		e := &o.Entries[i]
		first := uint64(before.runOf(e.ID).first)
		o.Lives = append(o.Lives, quota.Life{Client: e.ID.Client, Seq: first, Epoch: ended, Since: before.came(e.ID, e.At, ended)},
			quota.Life{Client: e.ID.Client, Seq: first, Epoch: o.Epoch, Since: present})
	}
	return present
}

// isOlder reports whether the log is an older copy although the client does not
// know its epoch: it held entries before the client's newest one in another
// life, and no restoration has brought anything of that life here. A client
// does not know the epoch of a log that was replaced before its first call.
func (o *Restorer) isOlder(known *quota.Receipt, p *presence) bool {
	follows := slices.ContainsFunc(o.Lives, func(life quota.Life) bool { return life.Epoch == known.Epoch })
	return known.Epoch != 0 && !follows && slices.ContainsFunc(o.Entries, func(e quota.Entry) bool {
		return !p.came(e.ID, e.At, o.Epoch).After(known.At)
	})
}

// mergeGaps adds the gaps that a client knows, and drops those of which nothing
// is left.
func (o *Restorer) mergeGaps(more []quota.Gap) {
	var merged []quota.Gap
	for _, gap := range slices.Concat(o.Gaps, more) {
		isKnown := slices.ContainsFunc(merged, func(have quota.Gap) bool { return SameGap(have, gap) })
		if !isKnown && !gap.To.Before(o.Oldest) {
			merged = append(merged, gap)
		}
	}
	o.Gaps = merged
}

// SameGap reports whether two gaps are the same, in whatever zones their
// times are.
func SameGap(a, b quota.Gap) bool {
	isSameTime := a.From.Equal(b.From) && a.To.Equal(b.To)
	return a.Epoch == b.Epoch && isSameTime && a.Until.Equal(b.Until)
}

// findGap finds what a log lacks that was granted before a time, if an
// older copy took its place: what the copy holds came to it before it was
// made, or after all that a client knows which notices that.
func (o *Restorer) findGap(r *quota.Restoration, p *presence, present time.Time, isRenewed bool) {
	known := r.Known.At
	for i := range r.Heard {
		if known.Before(r.Heard[i].At) && r.Known.At.IsZero() {
			known = r.Heard[i].At
		}
	}
	gap := quota.Gap{Epoch: o.Epoch, To: present}
	if isRenewed {
		gap.Until = present
	}
	for i := range o.Entries {
		came := p.came(o.Entries[i].ID, o.Entries[i].At, o.Epoch)
		switch {
		case !came.After(known):
			gap.From = latest(gap.From, came)
		case came.Before(gap.To):
			gap.To = came
		}
	}
	if !known.IsZero() && gap.From.Before(gap.To) {
		o.mergeGaps([]quota.Gap{gap})
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mergeLives keeps the earliest statement about each life and client, and adds
// that the present life has held what a restoration names since now. It drops
// those of which the log has no entry and no statement.
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

// compact sorts lives, and keeps the earliest about each client's entries
// and epoch.
func compact(lives []quota.Life) []quota.Life {
	same := func(a, b quota.Life) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Epoch, b.Epoch))
	}
	slices.SortFunc(lives, func(a, b quota.Life) int { return cmp.Or(same(a, b), a.Since.Compare(b.Since)) })
	return slices.CompactFunc(lives, func(a, b quota.Life) bool { return same(a, b) == 0 })
}

// presence is since when each life of a log has held entries.
type presence struct {
	epoch uint64 // of the log
	gaps  []quota.Gap
	runs  map[uint64][]run // by client, oldest first
}

// run is what the lives hold of a client's entries from a sequence number on,
// up to the next run.
type run struct {
	first uint32
	since map[uint64]time.Time // by epoch; nil if no restoration has said it
}

func (o *Restorer) presence() presence {
	p := presence{o.Epoch, o.Gaps, map[uint64][]run{}}
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

// runOf returns the run of an entry.
func (p presence) runOf(id quota.ID) (of run) {
	for _, r := range p.runs[id.Client] {
		if r.first <= uint32(id.Seq) {
			of = r
		}
	}
	return of
}

// held reports whether the log of a statement held an entry of its window, of a
// run and stamped at a time. If no restoration has said when the client's
// entries came there, they are in the present log alone, as far as is known.
func (p presence) held(r *run, at time.Time, h *quota.WindowUse) bool {
	if h.Epoch == 0 {
		return true
	}
	since, held := r.since[h.Epoch]
	if r.since == nil {
		held = h.Epoch == p.epoch
	}
	return held && !h.At.Before(since) && !p.lost(h, latest(at, since))
}

// heldAll reports whether the log of a later statement held what an earlier one
// counted, as entries or as a note: it was the same log, which had not lost it,
// or the host that made the earlier one had restored it there since.
func (p presence) heldAll(earlier, later *quota.WindowUse) bool {
	if earlier.Epoch == later.Epoch {
		return !p.lost(later, earlier.At)
	}
	host := p.runOf(quota.ID{Client: earlier.Client})
	since := host.since[later.Epoch]
	isOlder := !since.IsZero() && !since.After(earlier.At)
	return !isOlder && p.held(&host, since, later)
}

// came returns when an entry that is stamped at a time came to a log: then, or
// when it was restored there.
func (p presence) came(id quota.ID, at time.Time, epoch uint64) time.Time {
	return latest(at, p.runOf(id).since[epoch])
}

// lastEntry is the entry that came to a log last, of those that it has seen.
// Without lives that is the newest.
type lastEntry struct {
	lives    presence
	id       quota.ID
	at, came time.Time
}

// lastOf returns the entry with an id, if the log has one.
func (o *Restorer) lastOf(id quota.ID) lastEntry {
	last := lastEntry{lives: o.presence()}
	if e := o.entry(id); e != nil {
		last.see(e)
	}
	return last
}

func (l *lastEntry) see(e *quota.Entry) {
	came := l.lives.came(e.ID, e.At, l.lives.epoch)
	if d := came.Compare(l.came); d > 0 || d == 0 && e.At.After(l.at) {
		*l = lastEntry{l.lives, e.ID, e.At, came}
	}
}

// lost reports whether a log had lost what came to it at a time before
// a statement.
func (p presence) lost(h *quota.WindowUse, came time.Time) bool {
	return slices.ContainsFunc(p.gaps, func(g quota.Gap) bool {
		wasHeld := came.After(g.From) && came.Before(g.To)
		isOver := !g.Until.IsZero() && h.At.After(g.Until.Add(quota.MaxStepBack)) // the clock may step back before Until
		isOfCopy := !h.At.Before(g.To) && !isOver
		return g.Epoch == h.Epoch && wasHeld && isOfCopy
	})
}
