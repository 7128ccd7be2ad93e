package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// DefaultParallel is how many regions a Runner fetches at once.
const DefaultParallel = 4

// DefaultGrace is how long a run that is told to stop waits for the pages in
// flight, which are paid for.
const DefaultGrace = 3 * time.Second

// Runner takes passes as far as the budgets allow.
type Runner struct {
	Catalog *catalog.Catalog
	Client  *youtube.Client
	Meter   *Meter // what the client's transport charges is told to it; nil counts nothing

	Lane     string           // of the calls; "" is the lane of scheduled work
	Parallel int              // regions at once; 0 is DefaultParallel
	Grace    time.Duration    // for the pages in flight when told to stop; 0 is DefaultGrace
	Again    bool             // fetch a finished pass once more
	Now      func() time.Time // nil is time.Now
	Progress func(Progress)   // told of every page, one call at a time; may be nil
}

// Progress is where a region's pass stands.
type Progress struct {
	Region  string
	Step    string
	Pages   int // committed, of all steps
	Planned int // the most that the pass may still come to
	Done    bool
	Outcome Outcome // when Done
}

// Outcome is how a region's pass, or a run, ended.
type Outcome string

// The outcomes, best first.
const (
	Complete Outcome = "complete"
	Skipped  Outcome = "skipped" // it was finished before, or another run is at it
	Stopped  Outcome = "stopped" // a budget or cooldown holds it; it goes on later
	Failed   Outcome = "failed"
)

// RegionReport is what a run did for one region.
type RegionReport struct {
	Region  string
	Tick    time.Time
	Outcome Outcome
	Calls   int         // charged
	Units   quota.Units // charged
	Videos  int         // rows fetched; one on two pages counts twice
	RetryAt time.Time   // when the first of its refused steps may go on; zero if none was, or nobody knows
	Err     error       // the first reason that it did not end complete
}

// Report is what a run did.
type Report struct {
	Outcome Outcome // the worst of its regions, Skipped counting as Complete
	Units   quota.Units
	RetryAt time.Time // when the first of what was stopped may go on; zero if nothing was, or nobody knows
	Err     error     // the reason of the first region with that outcome
	Regions []RegionReport
}

// Run fetches what is missing of each region's current pass, the
// longest-unfetched region first, and reports in the order of regions. When
// ctx ends, pages in flight have the grace to arrive.
func (r *Runner) Run(ctx context.Context, regions []Region) (*Report, error) {
	names := make([]string, len(regions))
	place := map[string]int{}
	for i, region := range regions {
		names[i], place[region.Name] = region.Name, i
	}
	order, err := r.Catalog.LongestUnfetched(ctx, names)
	if err != nil {
		return nil, err
	}
	hard, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(cmp.Or(r.Grace, DefaultGrace), func() { cancel(context.Cause(ctx)) })
	})
	defer stop()

	reports := make([]RegionReport, len(regions))
	next := make(chan int, len(order))
	for _, name := range order {
		next <- place[name]
	}
	close(next)
	var wg sync.WaitGroup
	var progress sync.Mutex
	var none sync.Map
	for range min(cmp.Or(r.Parallel, DefaultParallel), len(regions)) {
		wg.Go(func() {
			for i := range next {
				p := &pass{Runner: r, stop: ctx, region: regions[i], progress: &progress, none: &none}
				reports[i] = p.run(quota.WithCaller(hard, quota.Caller{Lane: cmp.Or(r.Lane, Lane), Region: regions[i].Name}))
			}
		})
	}
	wg.Wait()
	return summary(reports), nil
}

func (r *Runner) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// summary adds up what the regions did.
func summary(regions []RegionReport) *Report {
	report := &Report{Outcome: Complete, Regions: regions}
	rank := func(o Outcome) int { return slices.Index([]Outcome{Complete, Stopped, Failed}, o) }
	for _, region := range regions {
		report.Units += region.Units
		if rank(region.Outcome) > rank(report.Outcome) {
			report.Outcome, report.Err = region.Outcome, region.Err
		}
		report.RetryAt = sooner(report.RetryAt, region.RetryAt)
	}
	return report
}

// sooner returns the first of two instants, where zero is unknown.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// pass is one region's pass in one run.
type pass struct {
	*Runner
	stop     context.Context // ended: begin no further page
	region   Region
	tick     time.Time
	next     time.Time // tick
	planned  int
	pages    int
	progress *sync.Mutex
	none     *sync.Map // of the run: methods that are of no use any more, each with the reason
	report   RegionReport
}

func (p *pass) run(ctx context.Context) RegionReport {
	p.report = RegionReport{Region: p.region.Name, Outcome: Complete}
	err := p.fetch(ctx)
	if p.stop.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = context.Cause(p.stop) // Google's client returns the context's error without its cause
	}
	p.report.Err = err
	switch {
	case err == nil:
	case errors.Is(err, catalog.ErrLocked), errors.Is(err, errDone):
		p.report.Outcome = Skipped
	case errors.Is(err, quota.ErrRefused), errors.Is(err, ErrNextTick), p.stop.Err() != nil:
		p.report.Outcome = Stopped
	default:
		p.report.Outcome = Failed
	}
	if p.Meter != nil {
		p.report.Calls, p.report.Units = p.Meter.Region(p.region.Name)
	}
	p.tell("", true)
	return p.report
}

// fetch takes the pass through its steps. A refused step, or one whose ledger
// cannot be asked, does not keep the others from going on: they may be
// charged to other budgets.
func (p *pass) fetch(ctx context.Context) error {
	now := p.now()
	if err := p.stop.Err(); err != nil {
		return context.Cause(p.stop)
	}
	p.tick = p.region.Schedule.Tick(now)
	if p.tick.IsZero() {
		return fmt.Errorf("schedule %q has not come in five years; write one that does", p.region.Schedule)
	}
	p.report.Tick, p.next = p.tick, p.region.Schedule.Next(now)
	lock, err := p.Catalog.Lock("region " + p.region.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	progress, err := p.begin(ctx)
	if err != nil {
		return err
	}
	for _, step := range p.region.Steps {
		p.planned += step.Pages
		p.pages += progress.Steps[step.Name()].Pages
	}
	var held error
	for _, step := range p.region.Steps {
		err := p.step(ctx, step, progress.Steps[step.Name()])
		switch {
		case err == nil:
		case errors.Is(err, quota.ErrRefused), errors.Is(err, quota.ErrLedgerDown), errors.Is(err, ErrNoQuota):
			held = worse(held, err)
			p.report.RetryAt = sooner(p.report.RetryAt, RetryAt(err))
		default:
			return worse(held, err)
		}
	}
	if held != nil {
		return held
	}
	return p.Catalog.FinishPass(context.WithoutCancel(ctx), p.region.Name, p.tick)
}

// worse returns the error that says more of how a pass ended: a refusal gives
// way to anything else, the first of equals stays.
func worse(a, b error) error {
	if a == nil || errors.Is(a, quota.ErrRefused) && !errors.Is(b, quota.ErrRefused) {
		return b
	}
	return a
}

// begin returns how far earlier runs have taken the pass.
func (p *pass) begin(ctx context.Context) (catalog.Progress, error) {
	progress, err := p.Catalog.Pass(ctx, p.region.Name, p.tick)
	if err != nil || progress.FinishedAt.IsZero() {
		return progress, err
	}
	if !p.Again {
		return progress, fmt.Errorf("%w %s; --again fetches anyway", errDone, quota.Stamp(progress.FinishedAt))
	}
	if err := p.Catalog.Restart(ctx, p.region.Name, p.tick); err != nil {
		return progress, err
	}
	return p.Catalog.Pass(ctx, p.region.Name, p.tick)
}

// step fetches the pages of a step that are missing and commits each.
func (p *pass) step(ctx context.Context, step Step, at catalog.Checkpoint) error {
	caller := quota.CallerFrom(ctx)
	caller.Job = step.Name()
	ctx = quota.WithCaller(ctx, caller)
	if step.Kind == Channels {
		defer p.releaseClaims(ctx)
	}
	for !at.Done && at.Pages < step.Pages {
		if p.stop.Err() != nil {
			return context.Cause(p.stop)
		}
		if !p.next.IsZero() && !p.now().Before(p.next) {
			return ErrNextTick
		}
		page, err := p.page(ctx, step, at)
		if err != nil {
			return err
		}
		page.Region, page.Tick, page.Step, page.Number = p.region.Name, p.tick, step.Name(), at.Pages
		page.Done = page.Done || page.Next == "" && step.Kind != Channels || at.Pages+1 == step.Pages
		if err := p.Catalog.Commit(context.WithoutCancel(ctx), page); err != nil {
			return err
		}
		at = catalog.Checkpoint{Next: page.Next, Pages: at.Pages + 1, Videos: at.Videos + len(page.Videos), Done: page.Done}
		p.report.Videos += len(page.Videos)
		p.pages++
		p.tell(step.Name(), false)
	}
	return nil
}

// allMethods stands for every method.
const allMethods = ""

// page fetches one page. When the upstream says stop, the call is made once more:
// by then the answer has set a cooldown, which is waited for if it is short, or
// whose refusal says when to come back. An upstream that says it again has stopped the step.
func (p *pass) page(ctx context.Context, step Step, at catalog.Checkpoint) (catalog.Page, error) {
	for _, method := range []string{step.Method(), allMethods} {
		if err, ok := p.none.Load(method); ok {
			return catalog.Page{}, err.(error)
		}
	}
	page, err := p.call(ctx, step, at)
	answer, ok := errors.AsType[*youtube.APIError](err)
	switch {
	case !ok:
		return page, err
	case answer.Stops():
	case answer.NotFound(): // a region without a chart; another call would find none either
		return catalog.Page{Done: true}, nil
	case answer.KeyRefused():
		err = fmt.Errorf("%w: %w", ErrKey, err)
		p.none.Store(allMethods, err)
		return page, err
	case answer.Class == feedback.Never:
		err = &NoQuotaError{Method: step.Method(), Bucket: answer.Bucket, Err: err}
		p.none.Store(step.Method(), err)
		return page, err
	default:
		return page, err
	}
	page, err = p.call(ctx, step, at)
	if again, ok := errors.AsType[*youtube.APIError](err); ok && again.Stops() {
		err = &UpstreamError{RetryAt: p.now().Add(again.After).UTC(), Err: err}
	}
	return page, err
}

// call makes the call of a page. Where the upstream says that it has not changed, the
// page is what an earlier pass was given.
func (p *pass) call(ctx context.Context, step Step, at catalog.Checkpoint) (catalog.Page, error) {
	if step.Kind == Channels { // asks for other channels each time
		return p.channels(ctx)
	}
	known, err := p.Catalog.KnownPage(ctx, p.region.Name, step.Name(), at.Next)
	if err != nil {
		return known, err
	}
	var page catalog.Page
	client := p.Client.IfNoneMatch(known.ETag)
	switch step.Kind {
	case Trending:
		page, err = client.Trending(ctx, p.region.Name, at.Next)
	case Search:
		page, err = client.Search(ctx, p.region.Name, step.Query, at.Next)
	case Categories:
		page, err = client.Categories(ctx, p.region.Name)
	}
	if known.ETag != "" && errors.Is(err, youtube.ErrNotModified) {
		page, err = known, nil
	}
	page.Token, page.Done, page.FirstRank = at.Next, false, 0
	if step.Kind == Trending {
		page.FirstRank = at.Videos + 1
	}
	return page, err
}

func (p *pass) tell(step string, done bool) {
	if p.Progress == nil {
		return
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	p.Progress(Progress{Region: p.region.Name, Step: step, Pages: p.pages, Planned: p.planned, Done: done, Outcome: p.report.Outcome})
}
