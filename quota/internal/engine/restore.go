package engine

import (
	"context"
	"slices"
)

// Replica keeps a host's copy of the logs that its processes receive. It is
// safe for concurrent use by all processes of the host.
type Replica interface {
	// Load yields the batches that the host has of an account, with the epoch of
	// their log: those of the log as the host knew it last are in order, and
	// none is missing between them that a window could see. Batches with epoch 0
	// are in no order. They were granted while the ledger was down, at position
	// 0, or are of a former log, or follow batches that are missing. A batch is
	// valid until yield returns. Load returns the error of yield, if there is one.
	Load(account string, yield func(epoch uint64, b *Batch) error) error

	// Save adds batches that follow, in the log of known.Epoch, what known says;
	// known.After is 0 if they are the oldest that the log has. It may keep some
	// twice. A call does not fail because it cannot be kept, so there is no error.
	Save(account string, known Known, batches []Batch)
}

// Restoration says what a log lacked and got back.
type Restoration struct {
	Account string
	Epoch   uint64 // of the log, which is another one than before if that was lost
	Records int    // how many were appended
	Units   int64  // what their grants count
	Oldest  int64
	Newest  int64
}

// load folds the replica. Of what is not of the log as it is known, it keeps
// what that lacks. If the log was read before, it only adds the latter.
func (a *Account) load() error {
	if a.engine.o.Replica == nil {
		a.isLoaded = true
		return nil
	}
	isFirst, others := a.fold.isFresh, newFold()
	err := a.engine.o.Replica.Load(a.name, func(epoch uint64, b *Batch) error {
		switch {
		case epoch == 0:
			others.known = Known{}
			return others.batch(b)
		case isFirst:
			a.fold.known.Epoch = epoch
			return a.fold.batch(b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.fold.addLacking(others.missingIn(a.fold))
	a.isLoaded = true
	return nil
}

// addLacking folds records that the log is not known to have.
func (f *fold) addLacking(missing []*Record) {
	for _, r := range missing {
		f.lack[r.ID] = r
		folded := *r
		f.record(&folded, f.labelsOf(r.Labels.append(nil)), 0)
	}
}

// save keeps what was received.
func (a *Account) save(epoch uint64, batches []Batch) {
	if a.engine.o.Replica != nil && len(batches) > 0 {
		known := a.fold.known
		known.Epoch = epoch
		a.engine.o.Replica.Save(a.name, known, batches)
	}
}

// restore is called when the log is not the one that this process knows: it was
// lost, or is an older copy, or a fork. It folds the log as it is now, and
// appends what that lacks.
func (a *Account) restore(ctx context.Context) error {
	old := a.fold
	a.fold = newFold()
	a.fold.lookFor = old.lookFor
	if err := a.read(ctx); err != nil {
		a.fold = old
		return err
	}
	a.fold.addLacking(old.missingIn(a.fold))
	return a.appendLacking(ctx)
}

// missingIn returns the records by which f knows more than the fold of a log.
func (f *fold) missingIn(log *fold) (missing []*Record) {
	add := func(r Record) { r.Kept = true; missing = append(missing, &r) }
	for i := range f.entries {
		n := f.base + uint32(i)
		e := &f.entries[i]
		id := f.long(e.id)
		there, ok := log.find(id)
		if !ok && !e.isVoid {
			add(Record{Kind: e.kind, Name: f.names[e.name], ID: id, At: e.at, Labels: f.labels[e.labels].Labels,
				Amounts: f.amounts(n), Until: f.leases[n]})
		}
		if e.settledAt != 0 && (!ok || log.at(there).settledAt < e.settledAt) {
			add(Record{Kind: KindSettle, ID: f.long(e.settled), Ref: id, At: e.settledAt, Amounts: f.amounts(n)})
		}
	}
	for _, settle := range f.settles { // of grants that the log has, or that neither has
		if !log.hasSettle(settle) {
			add(*settle)
		}
	}
	for id, v := range f.voids {
		if _, ok := log.voids[id]; !ok {
			add(Record{Kind: KindVoid, ID: v.id, Ref: id, At: v.at})
		}
	}
	return append(missing, f.control.missingIn(&log.control)...)
}

// hasSettle reports whether a settle changes nothing.
func (f *fold) hasSettle(r *Record) bool {
	if n, ok := f.find(r.Ref); ok {
		e := f.at(n)
		return e.settledAt != 0 && !r.supersedes(e.settledAt, f.long(e.settled))
	}
	before := f.settles[r.Ref]
	return before != nil && !r.supersedes(before.At, before.ID)
}

// missingIn returns the records that hold by c, and not by the controls of a
// log.
func (c *controls) missingIn(log *controls) (missing []*Record) {
	missing = append(missing, newerIn(c.cooldowns, log.cooldowns)...)
	for name, records := range c.claims {
		for _, r := range records {
			if !slices.ContainsFunc(log.claims[name], func(there control) bool { return there.ID == r.ID }) {
				kept := r.Record
				kept.Kept = true
				missing = append(missing, &kept)
			}
		}
	}
	missing = append(missing, newerIn(c.limits, log.limits)...)
	if c.moved.ID != (ID{}) && c.moved.replaces(&log.moved) {
		kept := c.moved.Record
		kept.Kept = true
		missing = append(missing, &kept)
	}
	return missing
}

func newerIn[N comparable](all, log map[N]control) (newer []*Record) {
	for name, c := range all {
		if there, ok := log[name]; !ok || c.replaces(&there) && c.ID != there.ID {
			kept := c.Record
			kept.Kept = true
			newer = append(newer, &kept)
		}
	}
	return newer
}

// maxLacking is how many records a batch restores.
const maxLacking = 2000

// appendLacking appends what the log lacks, oldest first, and says so.
func (a *Account) appendLacking(ctx context.Context) (err error) {
	if len(a.fold.lack) == 0 {
		return nil
	}
	lookFor, found := a.fold.lookFor, a.fold.found
	restored := Restoration{Account: a.name}
	for rest := sortedRecords(a.fold.lack); len(rest) > 0 && err == nil; {
		rest = slices.DeleteFunc(rest, func(r *Record) bool { return a.fold.lack[r.ID] == nil })
		part := rest[:min(len(rest), maxLacking)]
		if len(part) == 0 {
			break
		}
		d := a.newDecision()
		for _, r := range part {
			d.add(r)
			d.countLacking(r)
		}
		var appended bool
		if appended, err = a.append(ctx, d); appended {
			restored.add(part)
			restored.Epoch = a.fold.known.Epoch
		}
	}
	a.fold.lookFor, a.fold.found = lookFor, found
	if restored.Records > 0 && a.engine.o.Restored != nil {
		a.engine.o.Restored(restored)
	}
	return err
}

// countLacking adds what a restored record may count for to the totals.
func (d *decision) countLacking(r *Record) {
	method := r.Labels.Method
	if r.Kind == KindSettle {
		n, ok := d.fold.find(r.Ref)
		if !ok {
			return
		}
		method = d.fold.labels[d.fold.at(n).labels].Method
	} else if !r.Kind.isEntry() {
		return
	}
	d.count(method, &r.Amounts)
}

// add counts records that were appended, oldest first.
func (restored *Restoration) add(records []*Record) {
	for _, r := range records {
		if restored.Newest = max(restored.Newest, r.At); restored.Records == 0 {
			restored.Oldest = r.At
		}
		restored.Records++
		if r.Kind.isEntry() {
			restored.Units += r.Amounts.Units
		}
	}
}

func sortedRecords(records map[ID]*Record) []*Record {
	var sorted []*Record
	for _, r := range records {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *Record) int {
		if a.At != b.At {
			return sign(a.At < b.At)
		}
		return sign(a.ID.before(b.ID))
	})
	return sorted
}
