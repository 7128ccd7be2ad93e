package replica

import (
	"encoding/binary"

	"github.com/ration-dev/ration/internal/engine"
)

// chain is the log as the host knows it: consecutive batches, each of which
// names the one before it. Batches that are not in it are of a former log, of a
// fork, or follow batches that are missing here.
type chain struct {
	epoch uint64   // 0 of an empty chain
	first uint64   // the position of marks[0]
	marks []uint32 // of each batch; 0 at positions that the log had trimmed
	at    int64    // the timestamp of the newest batch
}

// maxTrimmed is the largest number of trimmed positions that a chain bridges.
const maxTrimmed = 1 << 22

// add adds a batch if it follows one of the chain, whose later ones are then of
// a fork, or if it starts a log. A batch of a time before horizon can start an
// empty chain too: what precedes it counts in no window.
func (c *chain) add(e *element, horizon int64) {
	b := &e.batch
	switch {
	case c.follows(e): // as nearly all do
		c.marks, c.at = append(c.marks, markOf(b.Tag())), b.At
	case c.contains(e):
	case e.kind == kindStart, c.epoch == 0 && b.At < horizon:
		*c = chain{epoch: e.epoch, first: b.Position, marks: append(c.marks[:0], markOf(b.Tag())), at: b.At}
	case c.has(e.epoch, b.Position-uint64(e.gap), e.before):
		c.marks = c.marks[:b.Position-uint64(e.gap)-c.first+1]
		if e.gap > maxTrimmed {
			c.first, c.marks = b.Position, c.marks[:0]
		} else if e.gap > 1 {
			c.marks = append(c.marks, make([]uint32, e.gap-1)...)
		}
		c.marks, c.at = append(c.marks, markOf(b.Tag())), b.At
	}
}

// follows reports whether e is the batch at the position after the newest one.
func (c *chain) follows(e *element) bool {
	n := len(c.marks)
	if n == 0 || e.epoch != c.epoch || e.batch.Position != c.first+uint64(n) {
		return false
	}
	isNext := e.kind == kindNext && e.gap == 1
	return isNext && c.marks[n-1] == markOf(e.before)
}

// contains reports whether the batch of e is in the chain.
func (c *chain) contains(e *element) bool { return c.has(e.epoch, e.batch.Position, e.batch.Tag()) }

// isForkedBy reports whether e, which is not in the chain, is of a log that has
// lost batches of it.
func (c *chain) isForkedBy(e *element) bool {
	return c.epoch != 0 && (e.epoch != c.epoch || e.batch.Position <= c.end())
}

// has reports whether the batch at a position has a tag.
func (c *chain) has(epoch, position uint64, tag engine.Tag) bool {
	i := position - c.first
	isCovered := position >= c.first && i < uint64(len(c.marks))
	return epoch == c.epoch && isCovered && c.marks[i] == markOf(tag)
}

// end returns the newest position, and 0 of an empty chain.
func (c *chain) end() uint64 {
	if c.epoch == 0 {
		return 0
	}
	return c.first + uint64(len(c.marks)) - 1
}

// markOf shortens a tag; it is never 0.
func markOf(tag engine.Tag) uint32 {
	client, seq := binary.LittleEndian.Uint64(tag[:8]), binary.LittleEndian.Uint32(tag[6:])
	return uint32((client^uint64(seq)<<32)*0x9e3779b97f4a7c15>>32) | 1
}

// walk follows a chain through the elements of files, in order.
type walk struct {
	chain  *chain
	after  uint64
	before engine.Tag // of the batch at after
}

// next reports whether e is the next batch of the chain.
func (w *walk) next(e *element) bool {
	b := &e.batch
	isNext := b.Position == w.chain.first && w.after == 0
	if w.after != 0 {
		isNext = b.Position > w.after && b.Position-uint64(e.gap) == w.after && e.before == w.before
	}
	if !isNext || !w.chain.contains(e) {
		return false
	}
	w.after, w.before = b.Position, b.Tag()
	return true
}
