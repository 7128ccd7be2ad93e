// A Head is the head of a log, and decides about appends to it, for the stores
// that do so in Go. Redis and Postgres decide in a script and a function that
// say the same.

package engine

// Head is what a store keeps of a log beside its batches. The zero value is the
// head of a log that does not exist. It is not safe for concurrent use.
type Head struct {
	Epoch    uint64
	Position uint64 // the newest position
	Trimmed  uint64 // the newest position that was dropped
	Newest   int64  // the newest timestamp, in microseconds since the Unix epoch
	Gen      uint64
	Totals   [MaxTotals]int64
}

// NeedsTag reports whether HasDiverged compares the tag of the batch at
// known.After.
func (h *Head) NeedsTag(known *Known) bool {
	isThisLog := known.Epoch != 0 && known.Epoch == h.Epoch
	return isThisLog && known.After > h.Trimmed && known.After <= h.Position
}

// HasDiverged reports whether the log has diverged from what a caller knows.
// The tag is that of the batch at known.After, and used only if NeedsTag
// reports true.
func (h *Head) HasDiverged(known *Known, tag Tag) bool {
	if known.Epoch == 0 {
		return false
	}
	if known.Epoch != h.Epoch || known.After > h.Position {
		return true
	}
	return h.NeedsTag(known) && tag != known.Tag
}

// After returns the position after which a caller's batches begin. The log must
// not have diverged.
func (h *Head) After(known *Known) uint64 {
	if known.Epoch == 0 {
		return h.Trimmed
	}
	return max(known.After, h.Trimmed)
}

// Admits reports whether the conditions of an append hold at a time of the
// ledger's clock. The log must not have diverged.
func (h *Head) Admits(a *Append, now int64) bool {
	if a.Epoch != h.Epoch { // the caller does not know that there is a log
		return false
	}
	isEarly, isLate := a.NotBefore != 0 && now < a.NotBefore, a.NotAfter != 0 && now > a.NotAfter
	if isEarly || isLate {
		return false
	}
	if a.Any {
		return true
	}
	if a.Gen != h.Gen {
		return false
	}
	for i := range a.Conditions {
		if !a.Conditions[i].Holds(&h.Totals, now) {
			return false
		}
	}
	return true
}

// Append changes the head as an append does, and returns the timestamp of the
// batch, whose position is then h.Position.
func (h *Head) Append(a *Append, now int64) (at int64) {
	if h.Epoch == 0 {
		h.Epoch = a.NewEpoch
	}
	h.Position++
	if at = now; !a.Reset {
		at = max(now, h.Newest+1)
	}
	h.Newest = at + int64(a.Count) - 1
	if a.Bump {
		h.Gen++
	}
	for _, add := range a.Adds {
		h.Totals[add.Index] += add.Amount
	}
	h.Trimmed = max(h.Trimmed, min(a.Trim, h.Position))
	return at
}

// Tail returns what an answer says of the head.
func (h *Head) Tail(now int64) *Tail {
	return &Tail{
		Epoch: h.Epoch, Position: h.Position, First: h.Trimmed + 1,
		Newest: h.Newest, Gen: h.Gen, Totals: h.Totals, Now: now,
	}
}

// Page collects batches until they exceed its size.
type Page struct {
	Bytes int // 0 is engine.DefaultPage
	size  int
}

// Add adds a batch to a tail if it fits, and else sets tail.More.
func (p *Page) Add(tail *Tail, b Batch) (fits bool) {
	most := p.Bytes
	if most <= 0 {
		most = DefaultPage
	}
	p.size += len(b.Data)
	if len(tail.Batches) > 0 && p.size > most {
		tail.More = true
		return false
	}
	tail.Batches = append(tail.Batches, b)
	return true
}
