package quota

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// External usage is what programs that do not share the ledger spend of a
// quota. It shows in what upstreams say is left, and is recorded as notes.
const (
	noteTimeout   = lockExpiry      // the longest time that recording a note may take
	noteInterval  = time.Minute     // how long the ledger is taken to agree with a similar answer
	drainTimeout  = 5 * time.Second // how long CloseIdleConnections waits for notes in progress
	externalLane  = "upstream"      // the lane of notes, claims and locks
	externalLabel = "others: "      // begins the method of a note, which ends in the budget's name
)

// externalMethod returns the method of notes about external usage of a budget.
func externalMethod(budget string) string { return human.Cut(externalLabel+budget, MaxLabel) }

// externalUsage records external usage, one note at a time for each budget, in
// a goroutine that ends when there is nothing left to record. The zero value is
// ready for use.
type externalUsage struct {
	mu      sync.Mutex
	budgets map[budgetID]*reportedBudget
	running int           // goroutines
	idle    chan struct{} // closed when running becomes 0; nil while it is 0
	last    chan struct{} // closed when the goroutine started last has ended; nil if there was none
}

// budgetID names a budget, or with an empty budget an account, or a key of it.
type budgetID struct{ account, budget, key string }

// maxBudgetIDs is how many budgets and keys a process remembers something of.
const maxBudgetIDs = 4096

// reportedBudget is what an upstream has said about one budget.
type reportedBudget struct {
	agreed  time.Time // when the ledger last agreed that left is left; zero if unknown
	left    Units
	running bool
	next    *leftReport // the latest answer that arrived while a note was in progress
}

// leftReport is what one answer says is left.
type leftReport struct {
	ctx  context.Context
	call Call
	left Units
}

// report makes sure, in the background, that the ledger shows at most v.Left
// left of v.LeftOf. It ignores an answer that comes within noteInterval of the
// last agreement and differs from that by less than a hundredth of the limit.
func (e *externalUsage) report(ctx context.Context, t *Transport, call Call, v Verdict) {
	charge := t.Guard.chargeOf(call.Account, v.LeftOf)
	if charge == nil || charge.Window.Kind() == engine.InFlight {
		return
	}
	limit := charge.LimitOf(call.Key)
	inRange := v.Left >= 0 && v.Left < limit
	if !inRange || !charge.coverage.Covers(externalMethod(v.LeftOf), externalLane, "") {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := budgetID{call.Account, v.LeftOf, charge.keyOf(call.Key)}
	b := e.budgets[id]
	if b == nil {
		b = &reportedBudget{}
		if e.budgets == nil {
			e.budgets = map[budgetID]*reportedBudget{}
		}
		if len(e.budgets) >= maxBudgetIDs {
			maps.DeleteFunc(e.budgets, func(_ budgetID, b *reportedBudget) bool { return !b.running })
		}
		e.budgets[id] = b
	}
	step := max(1, limit/100)
	similar := v.Left > b.left-step && v.Left < b.left+step
	if similar && time.Since(b.agreed) < noteInterval {
		return
	}
	report := &leftReport{context.WithoutCancel(ctx), call, v.Left}
	if b.running {
		b.next = report
		return
	}
	b.running = true
	if e.running++; e.idle == nil {
		e.idle = make(chan struct{})
	}
	before, ended := e.last, make(chan struct{})
	e.last = ended
	go func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		e.record(t, b, charge, report)
	}()
}

// record records the external usage of one budget until no newer report is
// left. The goroutines take turns: notes that are recorded at the same time
// would make each other give up, and one for a short window counts in the
// others too.
func (e *externalUsage) record(t *Transport, b *reportedBudget, charge *charge, report *leftReport) {
	for report != nil {
		ctx, cancel := context.WithTimeout(report.ctx, noteTimeout)
		agreed, err := t.Guard.lowerLeft(ctx, &report.call, charge, report.left)
		cancel()
		t.succeeded(report.call, opError("note what is left of "+charge.Name, err))
		e.mu.Lock()
		b.left = report.left
		b.agreed = time.Time{}
		if agreed {
			b.agreed = time.Now()
		}
		report, b.next = b.next, nil
		if report == nil {
			b.running = false
			if e.running--; e.running == 0 {
				close(e.idle)
				e.idle = nil
			}
		}
		e.mu.Unlock()
	}
}

// Drain waits until the external usage that upstreams have reported so far (see
// Verdict.LeftOf) is recorded in the ledger, or until ctx ends. Transports
// record it in the background. Call Drain before closing the ledger; otherwise
// the latest report is lost until an upstream repeats it. The Guard can still
// be used afterwards.
func (g *Guard) Drain(ctx context.Context) error {
	g.external.mu.Lock()
	idle := g.external.idle
	g.external.mu.Unlock()
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
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		t.Guard.Drain(ctx)
	}
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// chargeOf returns the charge of the budget with a given name, or nil.
func (g *Guard) chargeOf(account, budget string) *charge {
	for _, b := range g.accounts[account] {
		if b.Name == budget {
			return b.charge
		}
	}
	return nil
}

// lowerLeft records external usage of a call's budget so that at most left is
// left, and reports whether the ledger then agrees. Calls in flight are charged
// already but not yet counted by the upstream, so they never look like external
// usage. If several processes see the same difference at once, one of them
// records it.
func (g *Guard) lowerLeft(ctx context.Context, call *Call, charge *charge, left Units) (agreed bool, err error) {
	note := Call{Account: call.Account, Key: charge.keyOf(call.Key), Method: externalMethod(charge.Name),
		Caller: Caller{Lane: externalLane}}
	if excess, err := g.excessLeft(ctx, &note, charge, left); excess <= 0 || err != nil {
		return err == nil && excess == 0, err
	}
	err = g.Correct(ctx, call.Account, func() error {
		excess, err := g.excessLeft(ctx, &note, charge, left)
		if excess <= 0 || err != nil {
			agreed = err == nil && excess == 0
			return err
		}
		amounts := charge.Measure.Only(min(excess, MaxUnits))
		note.Units, note.Measures = amounts.Units, amounts.Named
		// Unlike Guard.Note, it names no caller, and gives up before the lock expires.
		r := g.request(context.Background(), note, 1)
		r.force, r.kind = true, EntryNote
		r.calls = amounts.Calls
		_, err = g.spend(ctx, r)
		agreed = err == nil
		return err
	})
	if errors.Is(err, ErrCorrecting) {
		err = nil
	}
	return agreed, err
}

// excessLeft returns by how much the ledger shows more than left to be left. It
// is negative within the margin of a calendar window that would count the note:
// the note would count for both days, and the upstream may mean the one that
// ends.
func (g *Guard) excessLeft(ctx context.Context, note *Call, charge *charge, left Units) (Units, error) {
	state, err := g.state(ctx, charge, note.Key)
	if err != nil {
		return 0, err
	}
	for _, c := range g.chargesFor(note).charges {
		if c.Window.between(state.at) {
			return -1, nil
		}
	}
	return max(0, charge.LimitOf(note.Key)-left-charge.usedBefore(state)), nil
}

// answerAge is how long ago an upstream's bucket may have been as full as its
// answer says.
const answerAge = time.Second

// usedBefore returns what a charge had used when an upstream answered, at most:
// a bucket has refilled since.
func (c *charge) usedBefore(s *state) Units {
	if c.Window.Kind() != engine.Bucket {
		return Units(s.Used)
	}
	lacks := answerAge // to the full unit that is used at least
	if s.Used > 0 {
		lacks += ledgerTime(s.NextAt).Sub(s.at)
	}
	unit := c.Window.UnitTime()
	return max(0, Units(s.Used)-1) + Units((lacks+unit-1)/unit)
}
