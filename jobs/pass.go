package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// pass is one region's pass in one run.
type pass struct {
	*Runner
	*runState
	stop     context.Context // when done, no further page is begun
	claim    *claimedPass    // nil without a guard
	region   Region
	tick     time.Time
	nextTick time.Time
	pages    int // pages committed, by earlier runs too
	report   RegionReport
}

func (p *pass) run(caller quota.Caller) RegionReport {
	p.report = RegionReport{Region: p.region.Name, Outcome: Complete}
	err := p.fetch(quota.WithCaller(context.WithoutCancel(p.stop), caller))
	if p.claim != nil {
		defer p.claim.end(nil)
	}
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ended && p.stop.Err() != nil {
		err = context.Cause(p.stop) // Google's client returns the context's error without its cause
	}
	p.report.Err = err
	switch {
	case err == nil:
	case errors.Is(err, catalog.ErrLocked), errors.Is(err, errDone), errors.Is(err, quota.ErrClaimed):
		p.report.Outcome = Skipped
	case errors.Is(err, quota.ErrRefused), errors.Is(err, quota.ErrLedgerBusy), errors.Is(err, ErrNextTick),
		p.stop.Err() != nil:
		p.report.Outcome = Stopped
	default:
		p.report.Outcome = Failed
	}
	if p.Meter != nil {
		p.report.Calls, p.report.Units = p.Meter.Region(p.region.Name)
	}
	p.reportProgress("", true)
	return p.report
}

// fetch claims the pass and fetches its steps.
func (p *pass) fetch(ctx context.Context) error {
	now := p.now()
	if err := p.stop.Err(); err != nil {
		return context.Cause(p.stop)
	}
	p.tick = p.region.Schedule.Tick(now)
	if p.tick.IsZero() {
		return fmt.Errorf("schedule %q has had no tick in five years; write one that has", p.region.Schedule)
	}
	p.report.Tick = p.tick
	p.nextTick = p.region.Schedule.Next(now)
	lock, err := p.Catalog.Lock("region " + p.region.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	state, err := p.Catalog.Pass(ctx, p.region.Name, p.tick)
	if err != nil {
		lock.KeepNote()
		return err
	}
	if !state.FinishedAt.IsZero() && !p.Again {
		return fmt.Errorf("%w %s; --again fetches anyway", errDone, human.Time(state.FinishedAt))
	}
	state, err = p.claimPass(ctx, lock, state)
	if err == nil {
		err = p.fetchSteps(ctx, state)
	}
	if p.claim != nil && !p.claim.release(ctx, err) {
		lock.KeepNote() // the next run of this host need not wait for the claim to lapse
	}
	return err
}

// noteProgress records a checkpoint where a host that takes the pass over
// finds it.
func (p *pass) noteProgress(ctx context.Context, step Step, at catalog.Checkpoint) {
	if p.claim != nil {
		p.claim.noteCheckpoint(context.WithoutCancel(ctx), step.Name(), at)
	}
}

// checkTime returns an error if no further page may be begun: the run is told
// to stop, the claim lapses, or the next tick has come.
func (p *pass) checkTime(ctx context.Context) error {
	if p.claim != nil {
		p.claim.check(ctx)
	}
	if p.stop.Err() != nil {
		return context.Cause(p.stop)
	}
	if !p.nextTick.IsZero() && !p.now().Before(p.nextTick) {
		return ErrNextTick
	}
	return nil
}

func (p *pass) reportProgress(step string, done bool) {
	if p.Progress == nil {
		return
	}
	p.progressMu.Lock()
	defer p.progressMu.Unlock()
	p.Progress(Progress{Region: p.region.Name, Step: step, Pages: p.pages, Done: done, Outcome: p.report.Outcome})
}
