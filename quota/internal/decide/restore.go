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
	Since      time.Time     // since when the log has it, if its first entries are older
	Now        time.Time     // the present time on the ledger's clock
	Oldest     time.Time     // the log keeps no entries that are older

	// Uncounted is what Restore adds to the log that counters have not counted:
	// calls that no life of the log held, and units that were raised; and if the
	// log kept no entries at first, calls since then, and those of other lives.
	Uncounted []quota.Entry

	began    uint64         // Epoch before Restore
	accepted time.Time      // what is not later and is missing is given up; see quota.Guard.AcceptLoss
	taken    map[int64]bool // the stamps of Entries
	apart    []quota.Entry  // what the restoration counts of entries that the log does not: all if they have left it, less than none if it has more
	lost     bool           // the log has lost entries
	said     presence       // what the restoration says of lives
}

// Restore merges a restoration into the log. It adds the entries that are
// missing, and raises those that have fewer units. Then it adds notes for what
// the statements say that the entries do not add up to; the notes of earlier
// restorations are computed anew. RestoreResult.Known is the newest of the
// restored entries that were missing; or else the one that came to the log last
// of Restoration.Known and of all restored ones, since the answer to an earlier
// restoration may be lost; or else the log's newest entry but for notes.
func (o *Restorer) Restore(r *quota.Restoration) quota.RestoreResult {
	var done quota.RestoreResult
	o.began = o.Epoch
	r = o.toPresent(r)
	o.followNotes()
	o.removeNotes(r.Heard)
	o.findAccepted(o.Entries, r.Entries)
	done.Forgotten = o.forgotten(r)
	o.lost = r.Lost || done.Forgotten != nil
	o.said = (&Restorer{Statements: Statements{Lives: compact(slices.Clone(r.Lives))}}).presence()
	o.nameOlder(r.Known.Epoch, r.Lives)
	o.mergeGaps(r.Gaps)
	present := o.renew(r, o.lost)
	o.taken, o.apart = map[int64]bool{}, nil
	for i := range o.Entries {
		o.taken[o.Entries[i].At.UnixMicro()] = true
	}
	stamped := o.mergeEntries(r, &done)
	heard := slices.Clone(r.Heard)
	for i := range heard {
		if at, ok := stamped[heard[i].At.UnixMicro()]; ok {
			heard[i].At, heard[i].Since = at, heard[i].Since.Add(at.Sub(heard[i].At))
		}
	}
	o.matchHeard(heard)
	o.mergeHeard(heard, &done)
	o.mergeLives(r.Lives, present)
	o.addNotes(&done)
	byTime(o.Entries)
	byTime(o.Uncounted)
	done.Gaps = slices.Clone(o.Gaps)
	if n := len(o.Entries); n > 0 {
		done.Newest = o.Entries[n-1].At
	}
	if done.Since.IsZero() || done.Since.After(done.Newest) {
		done.Since = done.Newest
	}
	for n := len(o.Entries) - 1; n >= 0 && done.Known.ID == (quota.ID{}); n-- {
		if e := &o.Entries[n]; e.Kind != quota.EntryNote { // the next restoration may remove a note
			done.Known.ID, done.Known.At = e.ID, e.At
		}
	}
	return done
}

// toPresent returns a restoration in which what a clock ahead has stamped is of
// the last microseconds until now, in its order.
func (o *Restorer) toPresent(r *quota.Restoration) *quota.Restoration {
	latest := o.Now.Add(quota.MaxStepBack)
	isAhead := slices.ContainsFunc(r.Entries, func(e quota.Entry) bool { return e.At.After(latest) }) ||
		slices.ContainsFunc(r.Heard, func(h quota.WindowUse) bool { return h.At.After(latest) }) ||
		slices.ContainsFunc(r.Lives, func(l quota.Life) bool { return l.Since.After(latest) })
	if !isAhead {
		return r
	}
	moved := *r
	moved.Entries = slices.Clone(r.Entries)
	moved.Heard = slices.Clone(r.Heard)
	moved.Lives = slices.Clone(r.Lives)
	var ahead []*time.Time
	note := func(at *time.Time) {
		if at.After(latest) {
			ahead = append(ahead, at)
		}
	}
	for i := range moved.Entries {
		note(&moved.Entries[i].At)
	}
	for i := range moved.Heard {
		note(&moved.Heard[i].At)
	}
	for i := range moved.Lives {
		note(&moved.Lives[i].Since)
	}
	slices.SortFunc(ahead, func(a, b *time.Time) int { return b.Compare(*a) })
	present, last := o.Now, *ahead[0]
	for _, at := range ahead {
		if at.Before(last) {
			present, last = present.Add(-time.Microsecond), *at
		}
		*at = present
	}
	for i := range moved.Heard {
		if h := &moved.Heard[i]; !h.At.Equal(r.Heard[i].At) {
			h.Since = h.Since.Add(h.At.Sub(r.Heard[i].At))
		}
	}
	return &moved
}

// forgotten returns an error if the log does not hold the entry that a
// restoration knows it has held.
func (o *Restorer) forgotten(r *quota.Restoration) *quota.ForgottenError {
	known := &r.Known
	lostLife := known.Epoch != 0 && known.Epoch != o.Epoch
	isKept := !known.At.Before(o.Oldest) && known.At.After(o.Kept)
	isMissing := known.ID != (quota.ID{}) && isKept && o.entry(known.ID) == nil
	if !lostLife && !isMissing || known.At.Before(o.accepted) {
		return nil
	}
	lost := &quota.ForgottenError{Account: r.Account, Key: r.Key, Known: *known, Present: quota.Receipt{Account: r.Account, Key: r.Key, Epoch: o.Epoch}}
	if n := len(o.Entries); n > 0 {
		lost.Present.At = o.Entries[n-1].At
	}
	return lost
}

// entry returns the log's oldest entry with an id, or nil.
func (o *Restorer) entry(id quota.ID) *quota.Entry {
	for i := range o.Entries {
		if e := &o.Entries[i]; id != (quota.ID{}) && short(e.ID) == short(id) {
			return e
		}
	}
	return nil
}

// findAccepted finds the latest note of a loss that was accepted.
func (o *Restorer) findAccepted(lists ...[]quota.Entry) {
	for _, entries := range lists {
		for i := range entries {
			if e := &entries[i]; e.AcceptsLoss() {
				o.accepted = latest(o.accepted, e.At)
			}
		}
	}
}

// givesUp reports whether an entry is of a loss that was accepted.
func (o *Restorer) givesUp(e *quota.Entry) bool {
	return !e.At.After(o.accepted) && !e.AcceptsLoss()
}

// removeNotes removes the notes of earlier restorations of this log. Those of
// one that it is a copy of stay, since nothing says what they stood for.
func (o *Restorer) removeNotes(more []quota.WindowUse) {
	clients := map[uint64][]*quota.WindowUse{}
	for _, heard := range [][]quota.WindowUse{o.Heard, more} {
		for i := range heard {
			h := &heard[i]
			clients[h.Client] = append(clients[h.Client], h)
		}
	}
	o.Entries = slices.DeleteFunc(slices.Clone(o.Entries), func(e quota.Entry) bool {
		return slices.ContainsFunc(clients[e.ID.Client], func(h *quota.WindowUse) bool { return isNoteOf(h, e.ID) })
	})
}

// mergeEntries returns the timestamps that the log has for the restored ones.
// The entries of one id match those of the log in their order; a client that
// only knows what they add up to restores it as one.
func (o *Restorer) mergeEntries(r *quota.Restoration, done *quota.RestoreResult) (stamped map[int64]time.Time) {
	stamped = map[int64]time.Time{}
	ids := make(map[shortID]*sameID, len(o.Entries))
	present, added := o.lastOf(r.Known.ID), lastEntry{} // of those that the log had, and that it lacked
	of := func(id quota.ID) *sameID {
		s := ids[short(id)]
		if s == nil {
			s = &sameID{}
			ids[short(id)] = s
		}
		return s
	}
	for i := range o.Entries {
		of(o.Entries[i].ID).add(i, o.Entries[i].Units)
	}
	several := repeated(r.Entries)
	for _, e := range r.Entries {
		id, at := of(e.ID), e.At.UnixMicro()
		have, skip := o.next(id, &e, several)
		more := id.said - id.units
		isCounted := e.Kind == quota.EntryAddition && more <= 0
		switch {
		case skip, have == nil && isCounted:
		case have == nil && o.givesUp(&e):
			done.GivenUp = append(done.GivenUp, e.ID)
		case have != nil:
			have.Method, have.Caller = e.Method, e.Caller // a log on Redis may have lost what its labels mean
			isGivenUp := o.lost && o.givesUp(&e)
			fewer := min(e.Calls-have.Calls, 0)
			switch {
			case more > 0 && !isGivenUp:
				o.raise(have, &e, more)
				id.units = id.said
				done.Entries++
				done.Units += more
			case min(more, fewer) < 0 && !several(e.ID):
				o.apart = append(o.apart, quota.Entry{At: have.At, ID: e.ID, Method: e.Method, Caller: e.Caller, Units: min(more, 0), Calls: fewer})
			}
			present.see(have)
			stamped[at] = have.At
		default:
			id.add(len(o.Entries), e.Units)
			wasHeld := !o.insert(&e)
			stamped[at] = e.At
			if wasHeld {
				present.see(&e)
				continue
			}
			added.see(&e)
			done.Entries, done.Units = done.Entries+1, done.Units+e.Units
		}
	}
	last := present
	if added.id != (quota.ID{}) {
		last, last.came = added, time.Time{} // now
	}
	done.Known.ID, done.Known.At = last.id, last.at
	done.Since = last.came
	return stamped
}

// raise raises an entry of the log to what was restored, by some units. A call
// that was refunded, and made again by its id, is of the later time.
func (o *Restorer) raise(have, e *quota.Entry, more quota.Units) {
	if have.Kind == quota.EntryRefunded && have.At.Before(e.At) {
		have.At = o.freeFrom(e.At.UnixMicro(), 1)
	}
	o.Uncounted = append(o.Uncounted, quota.Entry{At: have.At, Method: e.Method, Caller: e.Caller, Units: more, Calls: max(have.Calls, e.Calls) - have.Calls})
	have.Units = min(have.Units+more, quota.MaxUnits)
	have.Calls = max(have.Calls, e.Calls)
	have.Kind = e.Kind
}

// insert adds an entry that the log does not have, and sets its timestamp
// there. It reports false if the log counted the entry before it kept any.
func (o *Restorer) insert(e *quota.Entry) (isMissing bool) {
	wasKept := e.At.After(o.Kept)
	e.At = o.freeFrom(e.At.UnixMicro(), 1)
	o.Entries = append(o.Entries, *e)
	_, isOwed := o.said.runOf(e.ID).since[0]
	isCounted := o.Kept.IsZero() || !wasKept && o.isOurs(e)
	if isOwed || !isCounted {
		o.Uncounted = append(o.Uncounted, *e)
	}
	return isOwed || wasKept || o.lost
}

// isOurs reports whether this life of the log, or one that it is a copy of, has
// held an entry.
func (o *Restorer) isOurs(e *quota.Entry) bool {
	since := o.said.runOf(e.ID).since
	_, isOurs := since[o.began]
	for _, gap := range o.Gaps {
		_, ok := since[gap.Epoch]
		isOurs = isOurs || ok
	}
	return isOurs
}

// mergeHeard keeps the latest statement of each client about each budget and
// life of the log, those first whose notes later ones may count.
func (o *Restorer) mergeHeard(more []quota.WindowUse, done *quota.RestoreResult) {
	type subject struct {
		client, epoch uint64
		budget        string
	}
	type statement struct {
		quota.WindowUse
		covering int // how many statements count its note
	}
	var merged []statement
	places := map[subject]int{}
	for i, h := range slices.Concat(o.Heard, more) {
		isGivenUp := !h.At.After(o.accepted)
		if id := (quota.ID{Client: h.Client}); isGivenUp && i >= len(o.Heard) && !slices.Contains(done.GivenUp, id) {
			done.GivenUp = append(done.GivenUp, id)
		}
		if isGivenUp || h.At.Before(o.Oldest) {
			continue
		}
		of := subject{h.Client, h.Epoch, h.Budget}
		if i, ok := places[of]; !ok {
			places[of] = len(merged)
			merged = append(merged, statement{WindowUse: h})
		} else if !h.At.Before(merged[i].At) {
			merged[i].WindowUse = h
		}
	}
	for i := range merged {
		method, caller := merged[i].Note()
		for n := range merged {
			if merged[n].Coverage.Covers(method, caller) {
				merged[i].covering++
			}
		}
	}
	slices.SortFunc(merged, func(a, b statement) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(b.covering, a.covering), b.Since.Compare(a.Since),
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Epoch, b.Epoch))
	})
	o.Heard = make([]quota.WindowUse, len(merged))
	for i := range merged {
		o.Heard[i] = merged[i].WindowUse
	}
}

// freeFrom takes the first free stamp from a stamp on, in steps.
func (o *Restorer) freeFrom(stamp, step int64) time.Time {
	for o.taken[stamp] {
		stamp += step
	}
	o.taken[stamp] = true
	return Time(stamp)
}

func byTime(entries []quota.Entry) {
	slices.SortFunc(entries, func(a, b quota.Entry) int { return a.At.Compare(b.At) })
}
