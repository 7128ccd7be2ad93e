package decide

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// addNotes adds notes for what statements about earlier lives of the log say
// and the entries do not add up to. They are stamped as late as the calls can
// have been made: before the grant whose answer counted them. A statement gets
// none if the log of a later one about the same budget held its calls. Nor does
// a statement about the present log. The log still holds the calls that it
// counted, unless they have left it or cost less since; a note for them would
// count them again.
func (o *Restorer) addNotes(done *quota.RestoreResult) {
	c := counting{o: o, lives: o.presence(), entries: len(o.Entries), covered: map[string][]bool{}}
	for _, h := range o.Heard {
		if h.Epoch != o.Epoch {
			c.heard = append(c.heard, h)
		}
	}
	c.counted, c.runs = make([][]bool, len(c.heard)), make([]run, c.entries)
	for n := range o.Entries {
		c.runs[n] = c.lives.runOf(o.Entries[n].ID)
	}
	for i := range c.heard {
		h, missing := &c.heard[i], c.missing(i)
		isRepeated := func(later quota.WindowUse) bool {
			isAlike := later.Budget == h.Budget && later.Coverage.Key() == h.Coverage.Key()
			return isAlike && c.lives.heldAll(h, &later)
		}
		if !slices.ContainsFunc(c.heard[i+1:], isRepeated) {
			for range o.addNote(h, missing, done) {
				c.noted = append(c.noted, h)
			}
		}
	}
}

// matchHeard changes statements to count the restored entries as the log does.
// Of those that have left it, nothing else would show later whose they were. An
// older copy has calls as they were before they were settled to less.
func (o *Restorer) matchHeard(heard []quota.WindowUse) {
	lives := o.said
	lives.gaps = o.Gaps
	for i := range o.apart {
		e := &o.apart[i]
		run := lives.runOf(e.ID)
		for n := range heard {
			h := &heard[n]
			isCovered := isInWindow(h, e.At) && h.Coverage.Covers(e.Method, e.Caller)
			if isCovered && lives.held(&run, e.At, h) {
				h.Used = max(0, h.Used-amount(h, e))
			}
		}
	}
}

// counting is what statements have counted.
type counting struct {
	o       *Restorer
	lives   presence
	heard   []quota.WindowUse  // the statements about earlier lives of the log
	entries int                // how many of the Entries are not notes
	runs    []run              // of these
	covered map[string][]bool  // by the key of a coverage, of these
	counted [][]bool           // by each statement, of these
	noted   []*quota.WindowUse // the statement of each note
}

// coveredBy returns which entries a coverage covers.
func (c *counting) coveredBy(coverage *quota.Coverage) []bool {
	covered := c.covered[coverage.Key()]
	if covered == nil {
		covered = make([]bool, c.entries)
		for n := range covered {
			e := &c.o.Entries[n]
			covered[n] = coverage.Covers(e.Method, e.Caller)
		}
		c.covered[coverage.Key()] = covered
	}
	return covered
}

// missing returns how much a statement counted that is not among the entries
// and the notes so far.
func (c *counting) missing(i int) quota.Units {
	h := &c.heard[i]
	covered, counted := c.coveredBy(h.Coverage), make([]bool, c.entries)
	c.counted[i] = counted
	missing := h.Used
	var others []int // entries that its log held in the notes of earlier statements, or not at all
	for n := range covered {
		e := &c.o.Entries[n]
		switch {
		case !covered[n] || !isInWindow(h, e.At):
		case c.lives.held(&c.runs[n], e.At, h):
			missing -= amount(h, e)
			counted[n] = true
		default:
			others = append(others, n)
		}
	}
	if len(others) > 0 {
		missing -= c.inNotes(i, others)
	}
	for n, noted := range c.noted {
		e := &c.o.Entries[c.entries+n]
		isCounted := isInWindow(h, e.At) && h.Coverage.Covers(e.Method, e.Caller)
		if isCounted && c.lives.heldAll(noted, h) {
			// What it counts instead may be later: what the note stands for can
			// have left its window, or be in another note, too.
			if missing > 0 && amount(h, e) > 0 && noted.At.Before(h.At) {
				e.At = c.o.freeFrom(h.At.UnixMicro(), -1)
			}
			missing -= amount(h, e)
		}
	}
	return missing
}

// isInWindow reports whether the window of a statement contains a time.
func isInWindow(h *quota.WindowUse, at time.Time) bool {
	return !at.Before(h.Since) && !at.After(h.At)
}

// inNotes returns how much of entries a statement counted in the notes of
// earlier ones, of budgets whose notes it covers. The note of one was no more
// than what it said, less what the log held of that as entries.
func (c *counting) inNotes(i int, entries []int) (held quota.Units) {
	type earlier struct {
		counted []bool
		room    quota.Units // what its note may still count
	}
	h, counted := &c.heard[i], c.counted[i]
	var all []earlier
	for k := range i {
		have := &c.heard[k]
		countsItsNote := have.Coverage.Measure == h.Coverage.Measure && h.Coverage.Covers(have.Note())
		if !countsItsNote || !c.lives.heldAll(have, h) {
			continue
		}
		of := earlier{c.counted[k], have.Used}
		for n, both := range of.counted {
			if both && counted[n] {
				of.room -= amount(h, &c.o.Entries[n])
			}
		}
		all = append(all, of)
	}
	for _, n := range entries {
		most, counts := quota.Units(0), amount(h, &c.o.Entries[n])
		for k := range all {
			if of := &all[k]; of.counted[n] {
				counted[n] = true
				most, of.room = max(most, of.room), of.room-counts
			}
		}
		held += min(most, counts)
	}
	return held
}

// amount returns how much of an entry the budget of a statement counts.
func amount(h *quota.WindowUse, e *quota.Entry) quota.Units {
	return h.Coverage.Measure.Of(e.Units, e.Calls)
}

// addNote adds notes that count what is missing, and returns how many.
func (o *Restorer) addNote(h *quota.WindowUse, missing quota.Units, done *quota.RestoreResult) (n int) {
	for ; missing > 0; n++ {
		amount := min(missing, quota.MaxUnits)
		missing -= amount
		e := quota.Entry{At: o.freeFrom(h.At.UnixMicro(), -1), ID: quota.ID{Client: h.Client, Seq: noteSeq(h, n)}, Kind: quota.EntryNote}
		e.Method, e.Caller = h.Note()
		e.Units, e.Calls = h.Coverage.Measure.Split(amount)
		done.Noted += e.Units
		o.Entries = append(o.Entries, e)
	}
	return n
}

// noteSeq numbers the notes of one client.
func noteSeq(h *quota.WindowUse, n int) uint64 {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%x %s", h.Epoch, h.Budget)
	return uint64(sum.Sum32() + uint32(n))
}

// isNoteOf reports whether an id is that of a note of a statement.
func isNoteOf(h *quota.WindowUse, id quota.ID) bool {
	n := uint32(id.Seq) - uint32(noteSeq(h, 0))
	return id.Client == h.Client && quota.Units(n) <= h.Used/quota.MaxUnits
}

// followNotes gives the statements that a clock ahead has stamped the times of
// their notes, which the log may have restamped since. It drops those without
// a note.
func (o *Restorer) followNotes() {
	latest := o.Now.Add(quota.MaxStepBack)
	o.Heard = slices.Clone(o.Heard)
	o.Heard = slices.DeleteFunc(o.Heard, func(h quota.WindowUse) bool { return h.At.After(latest) && o.noteOf(&h) == nil })
	for i := range o.Heard {
		if h := &o.Heard[i]; h.At.After(latest) {
			at := o.noteOf(h).At
			h.At, h.Since = at, h.Since.Add(at.Sub(h.At))
		}
	}
}

// noteOf returns the newest note of a statement, or nil.
func (o *Restorer) noteOf(h *quota.WindowUse) *quota.Entry {
	for i := len(o.Entries) - 1; i >= 0; i-- {
		if isNoteOf(h, o.Entries[i].ID) {
			return &o.Entries[i]
		}
	}
	return nil
}
