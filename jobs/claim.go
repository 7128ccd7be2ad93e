package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// DefaultClaimTime is how long a pass stays claimed after its host was
// last heard.
const DefaultClaimTime = catalog.ClaimTime

// claimedPass keeps a pass claimed in the ledger, so that only one host runs
// it. A goroutine renews the claim. While the ledger is down, a pass whose
// calls have an allowance goes on unclaimed, and is claimed when the ledger
// is back.
type claimedPass struct {
	*pass
	lock    *catalog.Lock // its note names the owner of the claim that the ledger may hold
	account *engine.Account
	request engine.ClaimRequest
	end     context.CancelCauseFunc // of pass.stop
	quit    context.CancelFunc      // ends the goroutine
	keeping sync.WaitGroup

	mu     sync.Mutex
	claim  *engine.Claim                 // nil while the ledger is down
	failed error                         // why the last renewal failed, or nil
	steps  map[string]catalog.Checkpoint // how far the pass has come
	dirty  map[string]bool               // steps of which the ledger has not heard
}

// claimPass claims the pass, and returns how far earlier runs have come with
// it, on this host and on others. It returns an *ElsewhereError if another host
// has it.
func (p *pass) claimPass(ctx context.Context, lock *catalog.Lock, state catalog.PassState) (catalog.PassState, error) {
	if p.Guard == nil {
		return p.restart(ctx, state, !state.FinishedAt.IsZero())
	}
	c := &claimedPass{pass: p, lock: lock, request: claimRequest(&p.region, p.tick), dirty: map[string]bool{}}
	c.account = p.Guard.Account(passAccount(p.Table, &p.region))
	c.request.Hold = p.claimTime()
	c.request.Owner = newOwner(p.Host)
	c.request.Resumes = strings.Fields(lock.Left)
	c.request.Anew = p.Again
	if err := lock.SetNote(c.listOwners()); err != nil {
		return state, err
	}
	within, cancel := p.linger(ctx)
	defer cancel()
	claim, err := c.account.Claim(within, c.request)
	c.request.Resumes = append(c.request.Resumes, c.request.Owner) // its claim may be in the ledger despite an error
	if claimed, ok := errors.AsType[*engine.ClaimedError](err); ok {
		return state, &ElsewhereError{claimed}
	}
	if err != nil && !isLedgerDown(err) {
		lock.KeepNote()
		return state, err
	}
	if claim != nil {
		c.isHeld(claim)
	}
	p.claim = c
	p.stop, c.end = context.WithCancelCause(p.stop)
	keeping, quit := context.WithCancel(ctx)
	c.quit = quit
	c.keeping.Go(func() { c.renewUntil(keeping) })
	again := !state.FinishedAt.IsZero()
	if claim != nil && p.Again {
		again = again || !claim.Before.Done.IsZero()
	}
	state, err = p.restart(ctx, state, again)
	resumes := claim != nil && !again
	if err == nil && resumes && len(claim.Before.Notes) > 0 {
		state, err = p.Catalog.Advance(ctx, p.region.Name, p.tick, readNotes(&p.region, claim.Before.Notes))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = state.Steps
	return state, err
}

// maxResumes is how many owners that have ended a note lists: a lock's file is
// read up to 4 KB.
const maxResumes = 32

// listOwners returns the note of a lock while a claim is asked for: until it is
// granted, an earlier run of this host may hold it.
func (c *claimedPass) listOwners() string {
	ended := c.request.Resumes[max(0, len(c.request.Resumes)-maxResumes):]
	return strings.Join(append(slices.Clone(ended), c.request.Owner), " ")
}

// isHeld records that the ledger holds the claim for this run. A pass is begun
// anew once: if the claim is lost, another host may have fetched it since.
func (c *claimedPass) isHeld(claim *engine.Claim) {
	c.claim = claim
	c.request.Anew = false
	_ = c.lock.SetNote(c.request.Owner) // the note before it names this run too
}

// restart restarts a pass that is done, and is wanted again.
func (p *pass) restart(ctx context.Context, state catalog.PassState, done bool) (catalog.PassState, error) {
	if !done {
		return state, nil
	}
	return p.Catalog.Restart(ctx, p.region.Name, p.tick)
}

func isLedgerDown(err error) bool {
	return errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig)
}

func (r *Runner) claimTime() time.Duration { return cmp.Or(r.ClaimTime, DefaultClaimTime) }

// renewUntil renews the claim until ctx ends.
func (c *claimedPass) renewUntil(ctx context.Context) {
	for ctx.Err() == nil {
		pause := c.claimTime() / 4
		if c.isFailing() {
			pause = c.claimTime() / 24
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		c.endIfLapsing()
		c.renew(ctx)
		c.endIfLapsing()
	}
}

// isFailing reports whether the pass is unclaimed, or the last renewal failed.
func (c *claimedPass) isFailing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim == nil || c.failed != nil
}

// claimMargin is how long before its claim lapses a pass ends: its calls in
// flight end by then.
func (r *Runner) claimMargin() time.Duration { return r.claimTime() / 4 }

// renew renews the claim. If the pass is unclaimed, it claims it.
func (c *claimedPass) renew(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claim == nil {
		c.failed = c.join(ctx)
		return
	}
	deadline := c.claim.Lapses().Add(-c.claimMargin())
	within, cancel := context.WithDeadlineCause(ctx, deadline, errSilent)
	defer cancel()
	c.failed = c.claim.Renew(within)
	switch {
	case errors.Is(c.failed, quota.ErrClaimLost):
		c.claim = nil
		c.failed = c.join(ctx)
	case c.failed != nil && time.Since(deadline) > c.claimMargin():
		c.failed = errSuspended // otherwise it would have ended at the deadline
	}
	if c.failed == nil {
		c.sendNotes(ctx)
	}
}

// join claims a pass that is under way. It ends the pass if another host has
// had it meanwhile, because that one's pages are not known here.
func (c *claimedPass) join(ctx context.Context) error {
	claim, err := c.account.Claim(ctx, c.request)
	if claimed, ok := errors.AsType[*engine.ClaimedError](err); ok {
		c.end(&ElsewhereError{claimed})
	}
	if err != nil {
		return err
	}
	if before := &claim.Before; before.Owner != "" && !slices.Contains(c.request.Resumes, before.Owner) {
		c.end(&ElsewhereError{&engine.ClaimedError{Owner: before.Owner, Since: before.Since}})
		return claim.Release(ctx)
	}
	c.isHeld(claim)
	for name := range c.steps {
		c.dirty[name] = true
	}
	c.sendNotes(ctx)
	return nil
}

// endIfLapsing ends the pass if it is claimed and the claim lapses soon. If the
// ledger is down and calls have an allowance, the pass goes on without a claim.
func (c *claimedPass) endIfLapsing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claim == nil || time.Until(c.claim.Lapses()) > c.claimMargin() {
		return
	}
	lapsed := &LapsedError{cmp.Or(c.failed, errSuspended)}
	if errors.Is(lapsed, quota.ErrLedgerDown) && c.hasAllowance() {
		c.claim = nil
		return
	}
	c.end(lapsed)
}

// check ends a pass that is not to go on. Without a claim, it claims the pass
// if the ledger is back.
func (c *claimedPass) check(ctx context.Context) {
	c.endIfLapsing()
	c.mu.Lock()
	unclaimed := c.claim == nil
	c.mu.Unlock()
	if unclaimed {
		c.renew(ctx)
	}
}

// hasAllowance reports whether a call of the pass may be sent while the ledger
// is down.
func (p *pass) hasAllowance() bool {
	var calls []quota.Call
	for _, account := range p.Table.Accounts() {
		calls = append(calls, quota.Call{Account: account}) // of programs that do not say what they call
	}
	for _, step := range p.region.Steps {
		for _, of := range step.Calls() {
			if call, err := p.Table.Call("", of.Method); err == nil {
				call.Caller = quota.Caller{Lane: cmp.Or(p.Lane, Lane), Job: step.Name(), Region: p.region.Name}
				calls = append(calls, call)
			}
		}
	}
	return slices.ContainsFunc(calls, func(call quota.Call) bool { return p.Table.Allowance(call) > 0 })
}

// noteCheckpoint records how far a step has come, for a host that takes the
// pass over. It is best effort: what the ledger does not hear now, it hears
// with the next note.
func (c *claimedPass) noteCheckpoint(ctx context.Context, step string, at catalog.Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[step], c.dirty[step] = at, true
	c.sendNotes(ctx)
}

func (c *claimedPass) sendNotes(ctx context.Context) {
	if c.claim == nil {
		return
	}
	for name := range c.dirty {
		note := packCheckpoint(name, c.steps[name])
		if note != nil && c.claim.Note(ctx, string(note)) != nil {
			return
		}
		delete(c.dirty, name)
	}
}

// release ends the claim: the pass is done if err is nil, or may be resumed by
// any host. It reports whether the ledger holds no claim of this host;
// otherwise the claim lapses, and another host finds all pages noted.
func (c *claimedPass) release(ctx context.Context, err error) bool {
	impatient := time.AfterFunc(DefaultGrace, c.quit) // a renewal in flight holds the claim
	c.mu.Lock()
	impatient.Stop()
	c.quit()
	c.mu.Unlock()
	c.keeping.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.claimTime()/12)
	defer cancel()
	if c.claim == nil && err == nil && c.join(ctx) != nil {
		return false
	}
	if c.claim == nil {
		return false
	}
	c.sendNotes(ctx)
	if err == nil {
		return c.claim.Done(ctx) == nil
	}
	return c.claim.Release(ctx) == nil
}
