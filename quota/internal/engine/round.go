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
	losses := 0 // appends that others have overtaken
	for tries := 0; err == nil; tries++ {
		if tries > a.engine.o.Tries {
			err = fmt.Errorf("%w: other processes changed %s during %d tries", ErrLedgerBusy, a.name, tries)
			break
		}
		d := a.decide(tasks)
		if !isRead && d.refused {
			d.takeBack()
			isRead, err = true, a.read(ctx)
			continue
		}
		if a.isWrongClock() {
			d.takeBack()
			err = a.correctClock(ctx)
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
			endAdders(tasks, d, failed)
			return
		case appended:
			a.grant(tasks, d)
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
func endAdders(tasks []*task, d *decision, err error) {
	for _, t := range tasks {
		if d.adders[t] {
			t.err = err
		}
	}
}

// grant tells the tasks whose records are in the log.
func (a *Account) grant(tasks []*task, d *decision) {
	for _, t := range tasks {
		if t.granted != nil && d.adders[t] {
			t.granted(a.fold)
		}
	}
}

// prepare makes the fold one of the whole log. It reports whether it has just
// been read.
func (a *Account) prepare(ctx context.Context, tasks []*task) (isRead bool, err error) {
	if !a.isLoaded {
		if err := a.load(); err != nil {
			return false, err
		}
		a.isLoaded = true
	}
	if !slices.ContainsFunc(tasks, func(t *task) bool { return !t.isStale }) {
		return true, nil
	}
	if needsRead := a.fold.isFresh || a.engine.o.TestClock || hasLook(tasks); !needsRead {
		return false, nil
	}
	return true, a.read(ctx)
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
			t.look(&View{fold: a.fold, now: now})
		}
	}
}

// read folds what is new in the log.
func (a *Account) read(ctx context.Context) error {
	for {
		t, err := a.engine.ledger.Read(ctx, a.name, &Read{Known: a.fold.known})
		if err != nil {
			return err
		}
		if t.Diverged {
			if err := a.restore(ctx); err != nil {
				return err
			}
			continue
		}
		if err := a.receive(t); err != nil {
			return err
		}
		if !t.More {
			return nil
		}
	}
}

// receive folds an answer of the ledger.
func (a *Account) receive(t *Tail) error {
	if err := a.save(t.Epoch, t.Batches); err != nil {
		return err
	}
	a.clock.set(t.Now)
	return a.fold.receive(t)
}

// decide decides all tasks at one time.
func (a *Account) decide(tasks []*task) *decision {
	d := a.newDecision()
	for _, t := range tasks {
		if t.look != nil {
			continue
		}
		before := len(d.records)
		t.decide(d)
		d.adders[t] = len(d.records) > before
	}
	return d
}

func (a *Account) newDecision() *decision {
	return &decision{fold: a.fold, now: a.clock.now(&a.engine.o), wall: a.clock.wall(&a.engine.o), host: a.engine.o.Host,
		loads: map[meterID]int64{}, adders: map[*task]bool{}, nextID: a.engine.nextID}
}

func (e *Engine) nextID() ID { return ID{e.client, e.seq.Add(1)} }

// append appends what was decided, together with what this process has to say
// anyway. It reports whether it was appended; if not, the fold has received
// what was appended instead.
func (a *Account) append(ctx context.Context, d *decision) (bool, error) {
	conditions, notAfter := d.conditions()
	a.addOwn(d)
	request := &Append{Known: a.fold.known, NewEpoch: NewEpoch(), Any: !d.strict, Gen: a.fold.gen,
		Conditions: conditions, NotAfter: notAfter, Adds: d.totals(), Bump: d.bump, Reset: d.reset, Trim: d.trim}
	if d.strict {
		request.NotBefore = d.now
	}
	request.Data, request.Count = Pack(a.firstID(d.records), d.records), stampsOf(d.records)
	a.fold.lookFor, a.fold.found = (&Batch{Data: request.Data}).Tag(), false
	t, err := a.engine.ledger.Append(ctx, a.name, request)
	switch {
	case errors.Is(err, ErrInDoubt):
		return a.resolve(ctx, d, err)
	case err != nil:
		return false, err
	case t.Appended:
		a.doubtful = nil
	}
	return t.Appended, a.receiveOwn(ctx, t, request.Data)
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

// receiveOwn folds the answer to an append: what came before it, and then what
// was appended.
func (a *Account) receiveOwn(ctx context.Context, t *Tail, data []byte) error {
	switch {
	case t.Diverged:
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
// decided again.
func (a *Account) resolve(ctx context.Context, d *decision, lost error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	if err := a.read(ctx); err != nil {
		return false, lost
	}
	if a.fold.found {
		a.doubtful = nil
		return true, nil
	}
	for _, r := range d.records {
		if !r.Kept && (r.Kind == KindGrant || r.Kind == KindNote || r.Kind == KindTicket) {
			a.doubtful = append(a.doubtful, r.ID)
		}
	}
	return false, nil
}

// addOwn adds what a process appends beside what it is asked: voids of what was
// in doubt, records that the log lacks, its limits, and what must outlive the
// batches that are trimmed.
func (a *Account) addOwn(d *decision) {
	added := map[ID]bool{}
	for _, r := range d.records {
		added[r.ID] = true
	}
	for _, id := range a.doubtful {
		if !added[id] {
			d.add(&Record{Kind: KindVoid, Ref: id})
		}
	}
	a.addLacking(d)
	a.announceHorizon(d)
	if d.trim = a.trimmable(d); d.trim > 0 {
		for _, r := range a.fold.control.live(d.trim, d.now) {
			d.add(r)
		}
	}
}

// limitHolds is how long a limit holds once it was announced, at least, and
// limitRenewed how often it is announced.
const (
	limitHolds   = 24 * 60 * 60 * 1_000_000
	limitRenewed = 15 * 60 * 1_000_000
)

// announce adds the limits of the configurations whose budgets are asked,
// unless the log has had them lately.
func (a *Account) announce(d *decision) {
	var last *Budget
	for _, b := range d.asked {
		if b.Config == "" || b == last {
			continue
		}
		last = b
		held := a.fold.control.limits[limitID{b.Identity, b.Config}]
		if isOlder := held.Until > d.now && held.Value > b.Changed; !isOlder {
			a.announceRecord(d, &Record{Name: b.Identity, Owner: b.Config, Amounts: Amounts{Units: b.Limit}, Value: b.Changed})
		}
	}
}

// announceHorizon adds how far back the budgets and histories of this process
// need the log.
func (a *Account) announceHorizon(d *decision) {
	longest := d.history
	for _, b := range d.asked {
		longest = max(longest, b.horizon())
	}
	isDue := longest > a.horizon || d.now-a.horizonAt > limitRenewed
	if a.horizon = max(a.horizon, longest); !isDue || a.horizon == 0 {
		return
	}
	a.horizonAt = d.now
	if held := a.fold.control.limits[limitID{}]; held.Until <= d.now || held.Value <= a.horizon {
		a.announceRecord(d, &Record{Value: a.horizon})
	}
}

// announceRecord adds a limit, unless it holds for long enough.
func (a *Account) announceRecord(d *decision, r *Record) {
	held := a.fold.control.limits[limitID{r.Name, r.Owner}]
	isEqual := held.Amounts.Units == r.Amounts.Units && held.Value == r.Value
	if isEqual && held.Until-d.now > limitHolds {
		return
	}
	r.Kind, r.Until = KindLimit, d.now+limitHolds+limitRenewed
	d.add(r)
}

// trimmable returns the newest position that no window of any process can see,
// once that is much: an eighth of the log, or 0.
func (a *Account) trimmable(d *decision) uint64 {
	f := a.fold
	longest := max(f.control.retention(d.now), a.horizon)
	if longest == 0 {
		return 0
	}
	oldest := d.now - longest - max(longest/8, maxLead)
	n := 0
	for n < len(f.marks) && f.marks[n].at < oldest {
		n++
	}
	if n < 16 || n < len(f.marks)/8 {
		return 0
	}
	position := f.marks[n-1].position
	f.marks = slices.Clone(f.marks[n:])
	f.trim(oldest)
	return position
}

// isWrongClock reports whether the newest timestamps are of a clock that was
// wrong, by the ledger's clock and this host's.
func (a *Account) isWrongClock() bool {
	return a.fold.newest > a.clock.ledger+maxLead && a.clock.agrees(&a.engine.o)
}

// correctClock lets what is stamped ahead of the ledger's clock count at its
// present time.
func (a *Account) correctClock(ctx context.Context) error {
	d := a.newDecision()
	d.reset = true
	d.add(&Record{Kind: KindClock, Value: a.clock.ledger + maxLead, Until: a.clock.ledger})
	_, err := a.append(ctx, d)
	return err
}

// takeTickets writes tickets for the spends of a round that others have
// overtaken twice.
func (a *Account) takeTickets(ctx context.Context, tasks []*task) error {
	d := a.newDecision()
	tickets := map[*Request]ID{}
	for _, t := range tasks {
		for _, r := range t.requests {
			if !r.Force && r.Ticket == (ID{}) {
				tickets[r] = d.ticket(r, int64(max(r.Count, 1)))
			}
		}
	}
	if len(tickets) == 0 {
		return nil
	}
	_, err := a.append(ctx, d)
	for r, id := range tickets {
		r.Ticket, r.isOvertaken = id, !r.Wait
	}
	return err
}
