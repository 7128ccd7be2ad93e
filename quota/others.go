package quota

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How long a note of what others have spent may take, for how long it is taken
// to hold, and how long CloseIdleConnections waits for those in progress.
const (
	noteTimeout = claimTime
	noteHolds   = time.Minute
	drainTime   = 5 * time.Second
)

// otherSpenders enters what others than the processes on this ledger have spent
// of a quota, as far as the upstream's answers show it: one note at a time for
// each budget, in a goroutine that ends with it. Its zero value is ready.
type otherSpenders struct {
	mu      sync.Mutex
	budgets map[[2]string]*reportedLeft // by account and budget
	running int
	idle    chan struct{} // closed when running falls to 0; nil when it is
}

// reportedLeft is what an upstream said about one budget.
type reportedLeft struct {
	entered time.Time // when the ledger was last found or made to agree; zero: never
	left    Units     // of which it was
	running bool
	next    *reported // the newest answer, while a note is in progress
}

// reported is what one answer says.
type reported struct {
	ctx  context.Context
	call Call
	left Units
}

// note makes sure, in the background, that the ledger believes at most v.Left
// to be left. Within a minute it looks again only when what is left has changed
// by a hundredth of the limit.
func (o *otherSpenders) note(ctx context.Context, t *Transport, call Call, v Verdict) {
	charge := t.Guard.named(call.Account, v.LeftOf)
	if charge == nil || call.Key != "" || v.Left < 0 || v.Left >= charge.Limit || charge.Window.Estimate() || !charge.Coverage.Covers(othersMethod(v.LeftOf), Caller{Lane: reportedLane}) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	name := [2]string{call.Account, v.LeftOf}
	b := o.budgets[name]
	if b == nil {
		b = &reportedLeft{}
		if o.budgets == nil {
			o.budgets = map[[2]string]*reportedLeft{}
		}
		o.budgets[name] = b
	}
	if step := max(1, charge.Limit/100); time.Since(b.entered) < noteHolds && v.Left < b.left+step && v.Left > b.left-step {
		return
	}
	said := &reported{context.WithoutCancel(ctx), call, v.Left}
	if b.running {
		b.next = said
		return
	}
	b.running = true
	if o.running++; o.idle == nil {
		o.idle = make(chan struct{})
	}
	go o.enter(t, b, charge, said)
}

// enter enters the notes of one budget until there is no newer answer.
func (o *otherSpenders) enter(t *Transport, b *reportedLeft, charge *Charge, said *reported) {
	for said != nil {
		ctx, cancel := context.WithTimeout(said.ctx, noteTimeout)
		done, err := t.Guard.atMost(ctx, said.call.Account, charge, said.left)
		cancel()
		t.done(said.call, opError("note what is left of "+charge.Budget, err))
		o.mu.Lock()
		if b.entered, b.left = time.Now(), said.left; !done {
			b.entered = time.Time{}
		}
		if said, b.next = b.next, nil; said == nil {
			b.running = false
			if o.running--; o.running == 0 {
				close(o.idle)
				o.idle = nil
			}
		}
		o.mu.Unlock()
	}
}

// Drain waits until the external usage that upstreams have reported so far (see
// Verdict.LeftOf) is recorded in the ledger, or until ctx ends. Transports
// record it in the background. Call Drain before closing the ledger; otherwise
// the latest report is lost until an upstream repeats it. The Guard can still
// be used afterwards.
func (g *Guard) Drain(ctx context.Context) error {
	g.others.mu.Lock()
	idle := g.others.idle
	g.others.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CloseIdleConnections calls Drain on the Guard, for at most 5 seconds, and
// then closes the idle connections of Base. http.Client.CloseIdleConnections
// calls it.
func (t *Transport) CloseIdleConnections() {
	if !t.closing.CompareAndSwap(false, true) {
		return // its Base leads back to it
	}
	defer t.closing.Store(false)
	if t.Guard != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		t.Guard.Drain(ctx)
	}
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// named returns the budget of that name as calls are charged to it, or nil.
func (g *Guard) named(account, budget string) *Charge {
	for _, b := range g.accounts[account] {
		if b.charge.Budget == budget {
			return b.charge
		}
	}
	return nil
}

// atMost raises what is used of a budget so that at most left remains, and
// reports whether it does not. Calls in flight are charged and not yet seen by
// the upstream, so they are never taken for others'. Several processes may see
// the same answer's difference at once, and one of them enters it.
func (g *Guard) atMost(ctx context.Context, account string, charge *Charge, left Units) (done bool, err error) {
	note := Call{Account: account, Method: othersMethod(charge.Budget), Caller: Caller{Lane: reportedLane}}
	if more, err := g.moreThan(ctx, &note, charge, left); more <= 0 || err != nil {
		return err == nil && more == 0, err
	}
	err = g.Correct(ctx, account, func() error {
		more, err := g.moreThan(ctx, &note, charge, left)
		if more <= 0 || err != nil {
			done = err == nil && more == 0
			return err
		}
		as := manner{force: true, kind: EntryNote}
		if charge.Coverage.Measure == Calls {
			as.calls = min(more, MaxUnits)
		} else {
			note.Units = min(more, MaxUnits)
		}
		_, err = g.spend(ctx, &note, g.plan(&note), as)
		done = err == nil
		return err
	})
	if errors.Is(err, ErrCorrecting) {
		err = nil
	}
	return done, err
}

// moreThan returns by how much more than left the ledger believes to be left.
// It is below 0 around the boundary of a calendar window that would count the
// note: it would count into both days, and the upstream may speak of the one
// that ends.
func (g *Guard) moreThan(ctx context.Context, note *Call, charge *Charge, left Units) (Units, error) {
	standings, err := g.ledger.Standings(ctx, note.Account, "", []*Charge{charge})
	if err != nil {
		return 0, err
	}
	for _, counts := range g.plan(note).charges {
		if counts.Window.between(standings[0].At) {
			return -1, nil
		}
	}
	return max(0, charge.Limit-left-standings[0].Used), nil
}
