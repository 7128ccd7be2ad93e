package decide

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/ration-dev/ration/quota"
)

// addNotes adds notes for what statements say and the entries do not add up to.
// They are stamped as late as the calls can have been made: before the grant
// whose answer counted them. A statement gets none if the log of a later one
// about the same budget held its calls.
func (o *Restorer) addNotes(done *quota.Restored) {
	c := counting{o: o, lives: o.presence(), counted: make([][]bool, len(o.Heard)), entries: len(o.Entries)}
	for i := range o.Heard {
		h, missing := &o.Heard[i], c.missing(i)
		isRepeated := func(later quota.Heard) bool {
			return later.Budget == h.Budget && later.Coverage.Key() == h.Coverage.Key() && c.lives.heldAll(h, &later)
		}
		if !slices.ContainsFunc(o.Heard[i+1:], isRepeated) {
			for range o.addNote(h, missing, done) {
				c.noted = append(c.noted, h)
			}
		}
	}
}

// counting is what statements have counted.
type counting struct {
	o       *Restorer
	lives   presence
	entries int            // how many of the Entries are not notes
	counted [][]bool       // by each statement, of these
	noted   []*quota.Heard // the statement of each note
}

// missing returns how much a statement counted that is not among the entries
// and the notes so far.
func (c *counting) missing(i int) quota.Units {
	h := &c.o.Heard[i]
	c.counted[i] = make([]bool, c.entries)
	missing := h.Used
	for n := range c.o.Entries {
		e := &c.o.Entries[n]
		if e.At.Before(h.Since) || e.At.After(h.At) || !h.Coverage.Covers(e.Method, e.Caller) || !c.counts(i, n) {
			continue
		}
		missing -= quota.Units(Amount(h.Coverage, int64(e.Units), int64(e.Calls)))
		if n < c.entries {
			c.counted[i][n] = true
		}
	}
	return missing
}

// counts reports whether the log of a statement held an entry or note of its
// window: itself, or in the note of an earlier statement.
func (c *counting) counts(i, n int) bool {
	h := &c.o.Heard[i]
	if n >= c.entries {
		return c.lives.heldAll(c.noted[n-c.entries], h)
	}
	if e := &c.o.Entries[n]; c.lives.held(e.ID, e.At, h) {
		return true
	}
	for k := range i {
		if c.counted[k][n] && c.lives.heldAll(&c.o.Heard[k], h) {
			return true
		}
	}
	return false
}

// addNote adds notes that count what is missing, and returns how many.
func (o *Restorer) addNote(h *quota.Heard, missing quota.Units, done *quota.Restored) (n int) {
	for ; missing > 0; n++ {
		amount := min(missing, quota.MaxUnits)
		missing -= amount
		e := quota.Entry{At: o.freeFrom(h.At.UnixMicro(), -1), ID: quota.ID{Client: h.Client, Seq: noteSeq(h, n)}, Kind: quota.EntryNote}
		e.Method, e.Caller = h.Note()
		if h.Coverage.Measure == quota.Calls {
			e.Calls = amount
		} else {
			e.Units = amount
			done.Noted += amount
		}
		o.Entries = append(o.Entries, e)
	}
	return n
}

// noteSeq numbers the notes of one client.
func noteSeq(h *quota.Heard, n int) uint64 {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%x %s", h.Epoch, h.Budget)
	return uint64(sum.Sum32() + uint32(n))
}
