package engine

import (
	"context"
	"slices"
	"time"
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
	// It reports whether the host knew the log otherwise: another process has
	// received batches that the log has lost since, and this one had not.
	Save(account string, known Known, batches []Batch) (isFork bool)

	// Past returns the days, oldest first, in which the host received batches of
	// a time, by timestamps from since on and before until or a little beyond
	// them, also of days that no window can see any more.
	Past(account string, since, until int64) ([]PastDay, error)
}

// OutageReplica is a Replica that counts what this host is granted while the
// ledger is down; internal/replica implements it.
type OutageReplica interface {
	Replica
	// Outage lets decide grant a call by the records of the trailing 24 hours
	// that this host was granted without the ledger, and keeps it. No other
	// process of the host decides meanwhile.
	Outage(account string, now time.Time, decide func(recent []Record) (*Record, error)) error
}

// PastDay yields the batches of a day, each valid until yield returns, in no
// particular order. A batch can be in two days. It returns the error of yield.
type PastDay func(yield func(*Batch) error) error

// Restoration says what a log lacked and got back.
type Restoration struct {
	Account string
	Epoch   uint64 // of the log, which is another one than before if that was lost
	Lost    bool   // the log had lost records; otherwise they had never reached it
	Records int    // how many grants and notes were appended; there may be others beside them
	Units   int64  // what these count
	Oldest  int64
	Newest  int64
}

// load folds the replica. Of what is not of the log as it is known, it keeps
// what that lacks. If the log was read before, it only adds the latter.
func (a *Account) load() error {
	isFirst, others := a.fold.isFresh, newFold()
	err := a.eachKept(func(epoch uint64, b *Batch) error {
		switch {
		case epoch == 0:
			return others.batchAnywhere(b)
		case isFirst:
			a.fold.known.Epoch = epoch
			return a.fold.batch(b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.addLacking(others.missingIn(a.fold))
	a.isLoaded = true
	return nil
}

// loadAll adds what the log lacks of all that the replica has: other processes
// of the host may have received more than this one.
func (a *Account) loadAll() error {
	all := newFold()
	if err := a.eachKept(func(_ uint64, b *Batch) error { return all.batchAnywhere(b) }); err != nil {
		return err
	}
	a.addLacking(all.missingIn(a.fold))
	a.isFork = false
	return nil
}

// eachKept yields the batches of the replica, if there is one.
func (a *Account) eachKept(yield func(epoch uint64, b *Batch) error) error {
	if a.engine.o.Replica == nil {
		return nil
	}
	return a.engine.o.Replica.Load(a.name, yield)
}

// batchAnywhere folds a batch of any log. Clock records correct nothing: what
// was stamped ahead stays so, and is corrected in the log to which it is
// appended, if it is ahead there too.
func (f *fold) batchAnywhere(b *Batch) error {
	f.known, f.isMixed = Known{}, true
	return f.batch(b)
}

// addLacking folds records that the log is not known to have, but for those
// that it has trimmed.
func (a *Account) addLacking(missing []*Record) {
	trimmed := a.trimmedBefore(missing)
	for _, r := range missing {
		if r.At < trimmed && !r.Kind.changesDecisions() {
			continue
		}
		a.fold.lack[r.ID] = r
		folded := *r
		a.fold.record(&folded, a.fold.labelsOf(r.Labels.append(nil)), 0)
	}
}

// trimmedBefore returns a time before which no window sees the records that a
// log has trimmed, as far as it and what it lacks say; 0 of a whole log.
func (a *Account) trimmedBefore(missing []*Record) int64 {
	f, now := a.fold, a.clock.now(&a.engine.o)
	if f.first <= 1 || len(f.marks) == 0 {
		return 0
	}
	longest := max(a.horizon, f.control.retention(now))
	for _, r := range missing {
		if isHorizon := r.Kind == KindLimit && r.Name == ""; isHorizon && r.Until > now {
			longest = max(longest, r.Value)
		}
	}
	return min(now-longest, f.marks[0].at)
}

// save keeps what was received.
func (a *Account) save(epoch uint64, batches []Batch) {
	if a.engine.o.Replica != nil && len(batches) > 0 {
		known := a.fold.known
		known.Epoch = epoch
		isFork := a.engine.o.Replica.Save(a.name, known, batches)
		a.isFork = a.isFork || isFork
	}
}

// isBehind reports whether the log has trimmed the newest batch that this
// process knows, other than by its own append. The ledger cannot tell then
// whether what this process knows is of the log.
func (a *Account) isBehind(t *Tail, own uint64) bool {
	after := a.fold.known.After
	return after != 0 && t.First > after && t.First-1 > own
}

// restore is called when the log is not the one that this process knows: it was
// lost, or is an older copy, or a fork, or this process is behind. It folds the
// log as it is now, and appends what that lacks.
func (a *Account) restore(ctx context.Context) error {
	old := a.fold
	a.fold = newFold()
	a.fold.lookFor = old.lookFor
	if err := a.read(ctx); err != nil {
		a.fold = old
		return err
	}
	a.addLacking(old.missingIn(a.fold))
	if err := a.loadAll(); err != nil {
		return err
	}
	return a.appendLacking(ctx, true)
}

// LossAccepted is the Name of a note which says that the log is complete as it
// is: nothing older is restored.
const LossAccepted = "loss accepted"

// AcceptLoss appends a note that the log is complete as it is. What this
// process and its host know besides is forgotten.
func (a *Account) AcceptLoss(ctx context.Context, labels Labels) error {
	t := newTask(true, func(d *decision) {
		labels.Host = d.host
		d.add(&Record{Kind: KindNote, Name: LossAccepted, Labels: labels})
	})
	t.forgets = true
	return a.do(ctx, t)
}

// acceptedAt returns when the log was declared complete last.
func (f *fold) acceptedAt() (at int64) {
	for i := range f.entries {
		if e := &f.entries[i]; f.names[e.name] == LossAccepted && !e.isVoid {
			at = max(at, e.at)
		}
	}
	return at
}

// missingIn returns the records by which f knows more than the fold of a log,
// but for those of before that was declared complete.
func (f *fold) missingIn(log *fold) []*Record {
	accepted := log.acceptedAt()
	return slices.DeleteFunc(f.lackingIn(log), func(r *Record) bool { return r.At < accepted })
}

func (f *fold) lackingIn(log *fold) (missing []*Record) {
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

// Restored is the name, and the method, of a note which says that a host
// appended what the log had lost.
const Restored = "ledger.restored"

// appendLacking appends what the log lacks, oldest first, and says so.
func (a *Account) appendLacking(ctx context.Context, isLost bool) (err error) {
	if len(a.fold.lack) == 0 {
		return nil
	}
	if a.checkLookAlike(ctx) != nil {
		return nil // the records stay owed; what appends gets the error itself
	}
	lookFor, foundAt := a.fold.lookFor, a.fold.foundAt
	restored := Restoration{Account: a.name, Lost: isLost}
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
		if isLost && len(part) == len(rest) { // so that every host hears of it
			d.add(&Record{Kind: KindNote, Name: Restored, Labels: Labels{Method: Restored, Host: d.host}})
		}
		var appended bool
		if appended, err = a.append(ctx, d); appended {
			restored.add(part)
			restored.Epoch = a.fold.known.Epoch
		}
	}
	a.fold.lookFor, a.fold.foundAt = lookFor, foundAt
	isNews := restored.Records > 0 || isLost && restored.Newest != 0
	if isNews && a.engine.o.Restored != nil {
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
		if restored.Newest = max(restored.Newest, r.At); restored.Oldest == 0 {
			restored.Oldest = r.At
		}
		if r.Kind.isEntry() {
			restored.Records++
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
