package jobs

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
)

// DefaultClaimTime is how long a pass stays claimed after its host was last heard.
const DefaultClaimTime = 2 * time.Minute

// passClaim keeps a pass claimed in the ledger, so that of all hosts one runs it.
// While the ledger is down there is no claim: calls then need an allowance. A
// goroutine renews the claim, and claims the pass when the ledger is back.
type passClaim struct {
	*pass
	request quota.ClaimRequest
	end     context.CancelCauseFunc // of pass.stop
	quit    chan struct{}
	keeping sync.WaitGroup

	mu    sync.Mutex
	claim *quota.Claim                  // nil while the ledger is down
	steps map[string]catalog.Checkpoint // how far the pass has come
	dirty map[string]bool               // steps of which the ledger has not heard
}

// claimPass claims the pass, and returns how far earlier runs have come with it, on
// this host and on others. It returns an *ElsewhereError if another host has it.
func (p *pass) claimPass(ctx context.Context, lock *catalog.Lock, progress catalog.Progress) (catalog.Progress, error) {
	if p.Guard == nil {
		return p.restart(ctx, progress, !progress.FinishedAt.IsZero())
	}
	c := &passClaim{pass: p, request: claimRequest(p.Table, &p.region, p.tick), quit: make(chan struct{}), dirty: map[string]bool{}}
	c.request.Hold = p.claimTime()
	c.request.Owner, c.request.Resumes, c.request.Anew = newOwner(), lock.Left, p.Again
	if err := lock.SetNote(c.request.Owner); err != nil {
		return progress, err
	}
	claim, err := p.Guard.Claim(ctx, c.request)
	if claimed, ok := errors.AsType[*quota.ClaimedError](err); ok {
		return progress, &ElsewhereError{claimed}
	}
	if err != nil && !isLedgerDown(err) {
		return progress, err
	}
	c.claim, p.claim = claim, c
	p.stop, c.end = context.WithCancelCause(p.stop)
	c.keeping.Go(func() { c.keep(ctx) })
	again := !progress.FinishedAt.IsZero()
	if claim != nil && p.Again {
		again = again || !claim.Before.Done.IsZero()
	}
	progress, err = p.restart(ctx, progress, again)
	if err == nil && claim != nil && len(claim.Before.Notes) > 0 {
		progress, err = p.advance(ctx, readNotes(&p.region, claim.Before.Notes))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = progress.Steps
	return progress, err
}

// restart restarts a pass that is done, and is wanted again.
func (p *pass) restart(ctx context.Context, progress catalog.Progress, done bool) (catalog.Progress, error) {
	if !done {
		return progress, nil
	}
	if err := p.Catalog.Restart(ctx, p.region.Name, p.tick); err != nil {
		return progress, err
	}
	return p.Catalog.Pass(ctx, p.region.Name, p.tick)
}

// advance records in the catalogue how far other hosts have come.
func (p *pass) advance(ctx context.Context, steps map[string]catalog.Checkpoint) (catalog.Progress, error) {
	if err := p.Catalog.Advance(ctx, p.region.Name, p.tick, steps); err != nil {
		return catalog.Progress{}, err
	}
	return p.Catalog.Pass(ctx, p.region.Name, p.tick)
}

func isLedgerDown(err error) bool {
	return errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig)
}

func (r *Runner) claimTime() time.Duration { return cmp.Or(r.ClaimTime, DefaultClaimTime) }

// keep renews the claim until quit is closed.
func (c *passClaim) keep(ctx context.Context) {
	hold := c.claimTime()
	for pause := hold / 4; ; {
		select {
		case <-c.quit:
			return
		case <-time.After(pause):
		}
		pause = hold / 4
		if err := c.renew(ctx); err != nil {
			pause = hold / 24
			c.endIfLapsing(err)
		}
	}
}

// margin is how long before the claim lapses the pass ends: its calls in flight end by
// then.
func (c *passClaim) margin() time.Duration { return c.claimTime() / 4 }

// renew renews the claim, or claims the pass if there is no claim yet. It returns an
// error if there is none now, after ending a pass that another host has.
func (c *passClaim) renew(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claim == nil {
		return c.join(ctx)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, c.claim.Lapses().Add(-c.margin()), errSilent)
	defer cancel()
	err := c.claim.Renew(ctx)
	if errors.Is(err, quota.ErrClaimLost) {
		c.claim = nil
		return c.join(context.WithoutCancel(ctx))
	}
	if err == nil {
		c.sendNotes(ctx)
	}
	return err
}

// join claims a pass that is under way. It ends the pass if another host has had it
// meanwhile, because that one's pages are not known here.
func (c *passClaim) join(ctx context.Context) error {
	claim, err := c.Guard.Claim(ctx, c.request)
	if claimed, ok := errors.AsType[*quota.ClaimedError](err); ok {
		c.end(&ElsewhereError{claimed})
	}
	if err != nil {
		return err
	}
	if before := &claim.Before; before.Owner != "" && before.Owner != c.request.Owner && before.Owner != c.request.Resumes {
		c.end(&ElsewhereError{&quota.ClaimedError{Owner: before.Owner, Since: before.Since}})
		return claim.Release(ctx)
	}
	c.claim, c.request.Anew = claim, false
	for name := range c.steps {
		c.dirty[name] = true
	}
	c.sendNotes(ctx)
	return nil
}

// endIfLapsing ends the pass if it is claimed and the claim lapses soon.
func (c *passClaim) endIfLapsing(err error) {
	if lapsing := c.lapsing(); lapsing && c.stop.Err() == nil {
		c.end(&LapsedError{err})
	}
}

func (c *passClaim) lapsing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim != nil && time.Until(c.claim.Lapses()) <= c.margin()
}

// note records how far a step has come, for a host that takes the pass over. It is
// best effort: what the ledger does not hear now, it hears with the next note.
func (c *passClaim) note(ctx context.Context, step string, at catalog.Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[step], c.dirty[step] = at, true
	c.sendNotes(ctx)
}

func (c *passClaim) sendNotes(ctx context.Context) {
	if c.claim == nil {
		return
	}
	for name := range c.dirty {
		note := packCheckpoint(name, c.steps[name])
		if note != nil && c.claim.Note(ctx, note) != nil {
			return
		}
		delete(c.dirty, name)
	}
}

// release ends the claim: the pass is done if err is nil, or may be resumed by any host.
func (c *passClaim) release(ctx context.Context, err error) {
	close(c.quit)
	c.keeping.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if c.claim == nil && (err != nil || c.join(ctx) != nil || c.claim == nil) {
		return
	}
	c.sendNotes(ctx)
	if err == nil {
		_ = c.claim.Done(ctx) // else the claim lapses, and another host finds all pages noted
	} else {
		_ = c.claim.Release(ctx)
	}
}
