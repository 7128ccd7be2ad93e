package engine

import (
	"context"
	"slices"
)

// Replica keeps a host's copy of the logs that its processes receive. It is
// safe for concurrent use by all processes of the host.
type Replica interface {
	// Load yields the batches that the host has of an account, in the order in
	// which they were received, with the epoch of each. A batch at position 0
	// was granted while the ledger was down.
	Load(account string, yield func(epoch uint64, b *Batch) error) error

	// Save adds batches. It may keep some twice.
	Save(account string, epoch uint64, batches []Batch) error
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

// load folds the replica.
func (a *Account) load() error {
	if a.engine.o.Replica == nil {
		return nil
	}
	return a.engine.o.Replica.Load(a.name, func(epoch uint64, b *Batch) error {
		if epoch != a.fold.known.Epoch && b.Position != 0 {
			a.fold.known = Known{Epoch: epoch}
			a.fold.marks = nil
		}
		return a.fold.batch(b)
	})
}

// save keeps what was received.
func (a *Account) save(epoch uint64, batches []Batch) error {
	if a.engine.o.Replica == nil || len(batches) == 0 {
		return nil
	}
	return a.engine.o.Replica.Save(a.name, epoch, batches)
}

// restore is called when the log is not the one that this process knows: it was
// lost, or is an older copy, or a fork. It folds the log as it is now, and lets
// the next append add what it lacks.
func (a *Account) restore(ctx context.Context) error {
	old := a.fold
	a.fold = newFold()
	if err := a.read(ctx); err != nil {
		a.fold = old
		return err
	}
	for _, r := range old.missingIn(a.fold) {
		a.fold.lack[r.ID] = r
	}
	for _, r := range sortedRecords(a.fold.lack) {
		a.fold.record(r, a.fold.labelsOf(r.Labels.append(nil)), 0)
	}
	return a.appendAllLacking(ctx)
}

// appendAllLacking appends what the log lacks.
func (a *Account) appendAllLacking(ctx context.Context) error {
	for len(a.fold.lack) > 0 {
		if err := a.appendLacking(ctx); err != nil {
			return err
		}
	}
	return nil
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
	for id, v := range f.voids {
		if _, ok := log.voids[id]; !ok {
			add(Record{Kind: KindVoid, ID: v.id, Ref: id, At: v.at})
		}
	}
	return append(missing, f.control.missingIn(&log.control)...)
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

// addLacking adds records that the log lacks, oldest first.
func (a *Account) addLacking(d *decision) {
	if len(a.fold.lack) == 0 {
		return
	}
	for i, r := range sortedRecords(a.fold.lack) {
		if i == maxLacking {
			break
		}
		d.add(r)
		d.count(r.Labels.Method, &r.Amounts)
	}
}

// appendLacking appends a batch of records that the log lacks, alone.
func (a *Account) appendLacking(ctx context.Context) error {
	before := sortedRecords(a.fold.lack)
	if _, err := a.append(ctx, a.newDecision()); err != nil {
		return err
	}
	restored := Restoration{Account: a.name, Epoch: a.fold.known.Epoch}
	for _, r := range before {
		if a.fold.lack[r.ID] != nil {
			continue
		}
		if restored.Newest = r.At; restored.Records == 0 {
			restored.Oldest = r.At
		}
		restored.Records++
		if r.Kind == KindGrant || r.Kind == KindNote {
			restored.Units += r.Amounts.Units
		}
	}
	if restored.Records > 0 && a.engine.o.Restored != nil {
		a.engine.o.Restored(restored)
	}
	return nil
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
