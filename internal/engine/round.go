package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// round decides tasks until all of them have ended.
func (a *Account) round(ctx context.Context, tasks []*task) {
	isRead, err := a.prepare(ctx, tasks)
	if err == nil && !slices.ContainsFunc(tasks, func(t *task) bool { return !t.isStale }) {
		a.look(tasks) // which decides nothing, and may not know the ledger's clock
		return
	}
	if err == nil && a.isContended(tasks) {
		isRead, err = true, a.takeTickets(ctx, tasks) // which reads what is new, too
	}
	losses, isCorrected := 0, false // losses are appends that others have overtaken
	for tries := 0; err == nil; tries++ {
		if tries > a.engine.o.Tries {
			err = fmt.Errorf("%w: other processes changed %s during %d tries", ErrLedgerBusy, a.name, tries)
			break
		}
		d := a.decide(tasks)
		if !isRead && d.refused {
			a.fold.takeBack()
			isRead, err = true, a.read(ctx)
			continue
		}
		if !isCorrected && a.isWrongClock() {
			a.fold.takeBack()
			isCorrected, err = true, a.correctClock(ctx)
			continue
		}
		if a.announce(d); len(d.records) == 0 {
			a.look(tasks)
			return
		}
		appended, failed := a.append(ctx, d)
		switch {
		case failed != nil:
			a.look(tasks)
			endAdders(tasks, failed)
			return
		case appended:
			for _, g := range d.charged {
				g.waitedAt = d.now
			}
			a.grant(tasks)
			a.look(tasks)
			return
		}
		isRead = true // an append that is not carried out reads
		if losses++; losses == 2 {
			err = a.takeTickets(ctx, tasks)
		}
	}
	fail(tasks, err)
	for _, t := range tasks {
		if t.isStale {
			a.look([]*task{t})
			t.err = nil
		}
	}
}

// endAdders ends the tasks whose records could not be appended. What was
// refused stays refused.
func endAdders(tasks []*task, err error) {
	for _, t := range tasks {
		if t.hasAdded {
			t.err = err
		}
	}
}

// grant completes the answers to tasks whose records are in the log.
func (a *Account) grant(tasks []*task) {
	for _, t := range tasks {
		if !t.hasAdded {
			continue
		}
		for i, answer := range t.answers {
			answer.complete(a.fold, t.requests[i])
		}
	}
}

// prepare makes the fold one of the whole log, and the log one that has all
// that this host knows of it. It reports whether it has just been read.
func (a *Account) prepare(ctx context.Context, tasks []*task) (isRead bool, err error) {
	if slices.ContainsFunc(tasks, func(t *task) bool { return t.forgets }) {
		a.fold, a.isLoaded = newFold(), true
		a.wasDown = false
	}
	if !a.isLoaded {
		if err := a.load(); err != nil {
			return false, err
		}
	}
	a.wasDown = a.wasDown || slices.ContainsFunc(tasks, func(t *task) bool { return t.owes })
	if !slices.ContainsFunc(tasks, func(t *task) bool { return !t.isStale }) {
		return true, nil
	}
	isDoubtful := a.wasDown || a.isFork || len(a.fold.lack) > 0
	isKnown := !a.fold.isFresh && !isDoubtful
	if isKnown && !a.engine.o.TestClock && !hasLook(tasks) {
		return false, nil
	}
	if err := a.read(ctx); err != nil {
		return true, err
	}
	if a.wasDown { // what the host has granted meanwhile is in the replica
		if err := a.load(); err != nil {
			return true, err
		}
		a.wasDown = false
	}
	if slices.ContainsFunc(tasks, func(t *task) bool { return t.forgets }) {
		a.isFork = false
	}
	if a.isFork {
		if err := a.loadAll(); err != nil {
			return true, err
		}
	}
	return true, a.appendLacking(ctx, false)
}

// hasLook reports whether a task must see what is new.
func hasLook(tasks []*task) bool {
	return slices.ContainsFunc(tasks, func(t *task) bool { return t.isFresh })
}

// look shows the state to the tasks that only look, each once.
func (a *Account) look(tasks []*task) {
	for _, t := range tasks {
		if t.look != nil {
			now := a.clock.now(&a.engine.o)
			if t.isStale && !a.engine.o.TestClock {
				now = time.Now().UnixMicro()
			}
			t.run(func() { t.look(&View{fold: a.fold, now: now}) })
		}
	}
}

// read folds what is new in the log. While it folds a page of a long log, it
// reads the next one.
func (a *Account) read(ctx context.Context) error {
	pages := make(chan page, 1)
	pages <- a.page(ctx, a.fold.known)
	for {
		t := <-pages
		switch {
		case t.err != nil:
			a.wasDown = true
			return t.err
		case t.Diverged || a.isBehind(t.Tail, 0):
			if err := a.restore(ctx); err != nil {
				return err
			}
			pages <- a.page(ctx, a.fold.known)
			continue
		case t.More:
			last := &t.Batches[len(t.Batches)-1]
			known := Known{Epoch: t.Epoch, After: last.Position, Tag: last.Tag()}
			go func() { pages <- a.page(ctx, known) }()
		}
		if err := a.receive(t.Tail); err != nil || !t.More {
			return err
		}
	}
}

// page is the answer to a read.
type page struct {
	*Tail
	err error
}

func (a *Account) page(ctx context.Context, known Known) (p page) {
	p.Tail, p.err = a.engine.ledger.Read(ctx, a.name, &Read{Known: known})
	return p
}

// receive folds an answer of the ledger.
func (a *Account) receive(t *Tail) error {
	a.save(t.Epoch, t.Batches)
	a.clock.set(t.Now)
	return a.fold.receive(t)
}

// decide decides all tasks at one time.
func (a *Account) decide(tasks []*task) *decision {
	d := &a.decision
	d.host = a.engine.o.Host
	d.client = a.engine.client
	d.nextID = a.engine.next
	d.clear(a.fold, a.clock.now(&a.engine.o), a.clock.wall(&a.engine.o))
	d.latest = a.clock.latest(&a.engine.o)
	for _, t := range tasks {
		before := len(d.records)
		d.isPending = false
		for i, r := range t.requests {
			t.answers[i] = d.request(r)
		}
		if t.decide != nil {
			t.run(func() { t.decide(d) })
		}
		t.hasAdded = len(d.records) > before || d.isPending
	}
	return d
}

// newDecision returns one that is not of the round's tasks.
func (a *Account) newDecision() *decision {
	return &decision{fold: a.fold, now: a.clock.now(&a.engine.o), wall: a.clock.wall(&a.engine.o),
		host: a.engine.o.Host, client: a.engine.client, nextID: a.engine.next}
}

func (e *Engine) nextID() ID { return ID{e.client, e.seq.Add(1)} }

// append appends what was decided, together with what this process has to say
// anyway. It reports whether it was appended; if not, the fold has received
// what was appended instead.
func (a *Account) append(ctx context.Context, d *decision) (bool, error) {
	if err := a.checkLookAlike(ctx); err != nil {
		a.fold.takeBack()
		return false, err
	}
	conditions, notAfter := d.conditions()
	a.addOwn(d)
	request := &Append{Known: a.fold.known, NewEpoch: a.newEpoch(), Any: !d.strict, Gen: a.fold.gen,
		Conditions: conditions, NotAfter: notAfter, Adds: d.adds,
		Bump: d.bump, Reset: d.reset, Trim: d.trim}
	if d.strict {
		request.NotBefore = d.now
	}
	request.Data, request.Count = Pack(a.firstID(d.records), d.records), stampsOf(d.records)
	a.fold.lookFor, a.fold.foundAt = (&Batch{Data: request.Data}).Tag(), 0
	t, err := a.engine.ledger.Append(ctx, a.name, request)
	if err == nil && !a.isBehind(t, d.trim) && a.fold.canConfirm(d.records, t) {
		return true, a.confirm(d, t, request.Data)
	}
	a.fold.takeBack()
	switch {
	case errors.Is(err, ErrInDoubt):
		return a.resolve(ctx, d, err)
	case err != nil:
		a.wasDown = true
		return false, err
	case t.Appended:
		a.doubtful = nil
	}
	return t.Appended, a.receiveOwn(ctx, t, request.Data, request.Trim)
}

// newEpoch returns the epoch for a log that an append creates. Few do.
func (a *Account) newEpoch() uint64 {
	if a.fold.known.Epoch != 0 {
		return a.fold.known.Epoch
	}
	return NewEpoch()
}

// confirm keeps what a decision tried, which was appended alone.
func (a *Account) confirm(d *decision, t *Tail, data []byte) error {
	own := Batch{Position: t.Position, At: t.At, Data: data}
	if a.engine.o.Replica != nil {
		a.save(t.Epoch, []Batch{own})
	}
	a.doubtful = nil
	a.fold.confirm(d.records, &own)
	return a.receive(t)
}

// firstID returns the id by which a batch is tagged: that of its first record
// of this client which is new, or another one.
func (a *Account) firstID(records []*Record) ID {
	for _, r := range records {
		if !r.Kept && r.ID.Client == a.engine.client {
			return r.ID
		}
	}
	return a.engine.nextID()
}

// receiveOwn folds the answer to an append, which was to trim up to a position:
// what came before it, and then what was appended.
func (a *Account) receiveOwn(ctx context.Context, t *Tail, data []byte, trim uint64) error {
	switch {
	case t.Diverged || a.isBehind(t, trim):
		return a.restore(ctx)
	case t.More:
		if err := a.receive(t); err != nil {
			return err
		}
		return a.read(ctx)
	case t.Appended:
		t.Batches = append(t.Batches, Batch{Position: t.Position, At: t.At, Data: data})
	}
	return a.receive(t)
}

// resolveTimeout is how long a process looks for a batch whose append was in
// doubt.
const resolveTimeout = 5 * time.Second

// resolve finds out whether a batch was appended whose answer was lost. If not,
// the next append voids its records, in case it arrives late, and all is
// decided again. Records with ids of callers are not voided: another process
// may have been asked for the same call, and got the answer that it is granted.
func (a *Account) resolve(ctx context.Context, d *decision, lost error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	tag := a.fold.lookFor
	if err := a.read(ctx); err != nil {
		return false, lost
	}
	// If the log was lost too, restoring it has appended another batch.
	if isFound := a.fold.foundAt != 0 && a.fold.lookFor == tag; isFound {
		a.doubtful = nil
		return true, nil
	}
	for _, r := range d.records {
		canVoid := (r.Kind.isEntry() || r.Kind == KindTicket) && r.ID.Client == a.engine.client
		if canVoid && !r.Kept {
			a.doubtful = append(a.doubtful, r.ID)
		}
	}
	return false, nil
}
