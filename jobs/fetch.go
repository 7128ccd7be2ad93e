package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// fetchSteps fetches the steps of the pass in order. After a step that is
// refused, or whose ledger is down, it continues with the next one, which may
// be charged to other budgets.
func (p *pass) fetchSteps(ctx context.Context, state catalog.PassState) error {
	ctx, cancel := p.linger(ctx)
	defer cancel()
	for _, step := range p.region.Steps {
		p.pages += state.Steps[step.Name()].Pages
	}
	var stopped error
	for _, step := range p.region.Steps {
		err := p.fetchStep(ctx, step, state.Steps[step.Name()])
		switch {
		case err == nil:
		case errors.Is(err, quota.ErrRefused), errors.Is(err, quota.ErrLedgerDown), errors.Is(err, quota.ErrLedgerBusy),
			errors.Is(err, ErrNoQuota):
			stopped = worse(stopped, err)
			if waits, ok := errors.AsType[*BackoffError](err); ok {
				p.report.Waiting = append(p.report.Waiting, waits)
			}
			p.report.RetryAt = earlier(p.report.RetryAt, RetryAt(err))
		default:
			return worse(stopped, err)
		}
	}
	if stopped != nil {
		return stopped
	}
	return p.Catalog.FinishPass(context.WithoutCancel(ctx), p.region.Name, p.tick)
}

// worse returns the error to report for a pass that had both: any error takes
// precedence over a refusal, otherwise a does.
func worse(a, b error) error {
	if a == nil || errors.Is(a, quota.ErrRefused) && !errors.Is(b, quota.ErrRefused) {
		return b
	}
	return a
}

// fetchStep fetches the missing pages of a step and commits each.
func (p *pass) fetchStep(ctx context.Context, step Step, at catalog.Checkpoint) error {
	caller := quota.CallerFrom(ctx)
	caller.Job = step.Name()
	ctx = quota.WithCaller(ctx, caller)
	switch step.Kind {
	case Command:
		return p.fetchProgram(ctx, step, at)
	case Channels:
		defer p.releaseClaims(ctx)
	}
	for !at.Done && at.Pages < step.Pages {
		if err := p.checkTime(ctx); err != nil {
			return err
		}
		attempt, err := p.beginAttempt(ctx, step)
		if err != nil {
			return err
		}
		page, err := p.fetchPage(ctx, step, at)
		if err != nil {
			attempt.end(ctx, err)
			return err
		}
		page.Region, page.Tick = p.region.Name, p.tick
		page.Step = step.Name()
		page.Method = step.Method()
		if noneNew := len(page.Channels)+len(page.MissingChannels) == 0; step.Kind == Channels && noneNew {
			attempt.end(ctx, nil) // no call was made, which says nothing about the method
			page.Method = ""
		}
		page.Number = at.Pages
		lastOfList := page.Next == "" && step.Kind != Channels
		page.Done = page.Done || lastOfList || at.Pages+1 == step.Pages
		if err := p.Catalog.Commit(context.WithoutCancel(ctx), page); err != nil {
			attempt.end(ctx, err)
			return err
		}
		at = catalog.Checkpoint{Next: page.Next, Pages: at.Pages + 1, Videos: at.Videos + len(page.Videos),
			Done: page.Done}
		p.report.Videos += len(page.Videos)
		p.noteProgress(ctx, step, at)
		p.pages++
		p.reportProgress(step.Name(), false)
	}
	return nil
}

// allMethods stands for every method.
const allMethods = ""

// fetchPage fetches one page. If the upstream says stop, it retries once: its
// first answer has set a cooldown, which the transport waits out if it is short
// and otherwise refuses with the time to come back. If the retry reaches the
// upstream and is stopped as well, fetchPage returns an *UpstreamError.
func (p *pass) fetchPage(ctx context.Context, step Step, at catalog.Checkpoint) (catalog.Page, error) {
	for _, method := range []string{step.Method(), allMethods} {
		if err, ok := p.hopeless.Load(method); ok {
			return catalog.Page{}, err.(error)
		}
	}
	page, err := p.callUpstream(ctx, step, at)
	answer, ok := errors.AsType[*youtube.APIError](err)
	switch {
	case !ok:
		return page, err
	case answer.Stops():
	case answer.NotFound() && at.Next == "": // the region has no chart; one that had a page has
		return catalog.Page{Done: true}, nil
	case answer.KeyRefused():
		err = fmt.Errorf("%w: %w", ErrKey, err)
		p.hopeless.Store(allMethods, err)
		return page, err
	case answer.Class == feedback.Never:
		err = &NoQuotaError{Method: step.Method(), Bucket: answer.Bucket, Err: err}
		p.hopeless.Store(step.Method(), err)
		return page, err
	default:
		return page, err
	}
	page, err = p.callUpstream(ctx, step, at)
	if again, ok := errors.AsType[*youtube.APIError](err); ok && again.Stops() {
		err = &UpstreamError{RetryAt: p.now().Add(again.After).UTC(), Err: err}
	}
	return page, err
}

// callUpstream makes the call that fetches a page. If the upstream answers that
// the page is unchanged, callUpstream returns it from the catalogue.
func (p *pass) callUpstream(ctx context.Context, step Step, at catalog.Checkpoint) (catalog.Page, error) {
	if step.Kind == Channels { // never the same page twice
		return p.fetchChannels(ctx)
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
	page.Token = at.Next
	page.Done = false
	page.FirstRank = 0
	if step.Kind == Trending {
		page.FirstRank = at.Videos + 1
	}
	return page, err
}

// linger returns a context that ends Grace after p.stop, which may be replaced
// meanwhile. If the claim lapses then, it ends before.
func (p *pass) linger(ctx context.Context) (context.Context, func()) {
	stop := p.stop
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(stop, func() {
		grace := cmp.Or(p.Grace, DefaultGrace)
		if _, lapsed := errors.AsType[*LapsedError](context.Cause(stop)); lapsed {
			grace = min(grace, p.claimMargin()/2)
		}
		time.AfterFunc(grace, func() { cancel(context.Cause(stop)) })
	})
	return ctx, func() {
		forget()
		cancel(nil)
	}
}
