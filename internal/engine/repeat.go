package engine

// repeated answers a request with an id of its own that was asked before. It
// returns nil if the log has none of its calls.
func (d *decision) repeated(r *Request, count int) *Answer {
	if r.ID == (ID{}) {
		return nil
	}
	answer := &Answer{At: d.now, Epoch: d.fold.known.Epoch, IDs: r.ids(count)}
	for _, id := range answer.IDs {
		if e, ok := d.fold.recorded(id); ok {
			answer.Repeated = append(answer.Repeated, e)
		}
	}
	isOther := r.Once && d.fold.lookUp(r.ID.Client).any()
	switch n := len(answer.Repeated); {
	case n == 0 && !isOther:
		return nil
	case n < count:
		return &Answer{At: d.now, Reused: true}
	}
	answer.At = answer.Repeated[0].At
	d.isPending = d.isPending || d.fold.isTried(r.ID)
	return answer
}

// ids returns the ids of the calls of a request that has one of its own.
func (r *Request) ids(count int) []ID {
	ids := make([]ID, count)
	for i := range ids {
		ids[i] = ID{r.ID.Client, r.ID.Seq + uint64(i)}
	}
	return ids
}

// recorded returns the entry of an id. One that was voided, or settled before
// its grant arrived, is settled to nothing: a grant of that id does not count.
func (f *fold) recorded(id ID) (Entry, bool) {
	n, ok := f.find(id)
	switch {
	case ok && !f.at(n).isVoid:
		return f.entryOf(n), true
	case ok:
		e := f.entryOf(n)
		e.Settled, e.Amounts = true, Amounts{}
		return e, true
	}
	_, isVoid := f.voids[id]
	return Entry{ID: id, Labels: new(Labels), Settled: true}, isVoid || f.settles[id] != nil
}

// isTried reports whether the entry of an id is not in the log yet.
func (f *fold) isTried(id ID) bool {
	n, ok := f.find(id)
	return ok && int(n-f.base) >= len(f.entries)-f.tried
}

// complete completes the answer to a request whose records are in the log, in
// the batch that was found last. If another process has asked for the same
// calls meanwhile, the log may have its records instead.
func (answer *Answer) complete(f *fold, r *Request) {
	if answer == nil || len(answer.IDs) == 0 {
		return
	}
	n, ok := f.find(answer.IDs[0])
	if !ok {
		return
	}
	answer.At, answer.Epoch = f.at(n).at, f.known.Epoch
	if r.ID == (ID{}) || answer.Repeated == nil && f.isAppended(answer.IDs) {
		return
	}
	answer.Repeated, answer.Held = nil, nil
	for _, id := range answer.IDs {
		e, _ := f.recorded(id)
		answer.Repeated = append(answer.Repeated, e)
	}
}

// isAppended reports whether entries are as the batch that was found last has
// them.
func (f *fold) isAppended(ids []ID) bool {
	for _, id := range ids {
		n, ok := f.find(id)
		if !ok {
			return false
		}
		e := f.at(n)
		isChanged := e.isVoid || e.settledAt != 0
		if isChanged || e.position != uint32(f.foundAt) {
			return false
		}
	}
	return true
}
