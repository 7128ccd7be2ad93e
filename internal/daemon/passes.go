package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
)

// passes takes the passes of one configuration.
type passes struct {
	*scheduled
	*setup.Fetcher
	log *slog.Logger
}

// runCounted is run, and counts the pass.
func (p *passes) runCounted(ctx context.Context, region jobs.Region) jobs.RegionReport {
	began := time.Now()
	report := p.run(ctx, region)
	p.metrics.passes.Ended(region.Name, string(report.Outcome), report.Units, time.Since(began))
	return report
}

// run takes a region's current pass as far as it goes. What may be waited and
// retried counts anew for each, as it does for each ration run.
func (p *passes) run(ctx context.Context, region jobs.Region) jobs.RegionReport {
	runner, err := p.NewRunner(ctx)
	if err != nil {
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Failed, Err: err}
	}
	runner.Grace, runner.Output = p.Grace, LogOutput(p.log)
	report, err := runner.Run(ctx, []jobs.Region{region})
	if err != nil {
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Failed, Err: err}
	}
	p.after(context.WithoutCancel(ctx), report)
	if errors.Is(report.Regions[0].Err, jobs.ErrCatalogReplaced) {
		select {
		case p.reopen <- struct{}{}:
			p.log.Warn("opening the catalogue again", "reason", p.Message(report.Regions[0].Err))
		default: // another pass has asked for it
		}
	}
	return report.Regions[0]
}

// after does what a run does after its passes.
func (p *passes) after(ctx context.Context, report *jobs.Report) {
	p.mu.Lock()
	p.Client.RepeatRefusal(report.Err) // for why
	marks, err := p.setup.LevelMarks()
	prune := p.setup.Now().Sub(p.pruned).Abs() > time.Hour
	fillDue := p.setup.Now().Sub(p.filled).Abs() > time.Minute
	if fillDue {
		p.filled = p.setup.Now()
	}
	if prune {
		p.pruned = p.setup.Now()
	}
	p.mu.Unlock()
	if report.Outcome != jobs.Failed && err == nil { // others may have spent, too
		if balances, err := p.Client.Guard().Balances(ctx); err == nil {
			for _, line := range marks.Crossed(balances) {
				p.log.Warn("budget crosses a level", "reason", line)
			}
		}
	}
	if fillDue {
		p.fill(ctx)
	}
	if !prune {
		return
	}
	if _, err := p.Catalog.Prune(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Error("old rows stay", "reason", err.Error())
	}
}

// fillPause is how often serve fills the history when no pass does: others
// may spend through the gateway, and the shortest log keeps its entries
// for minutes.
const fillPause = time.Minute

// keepHistory fills the history now and then, until stop is called.
func (p *passes) keepHistory() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var filling sync.WaitGroup
	filling.Go(func() {
		ticker := time.NewTicker(fillPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.fill(ctx)
			}
		}
	})
	return func() { cancel(); filling.Wait() }
}

// fill brings the history up to date, and logs why it cannot.
func (p *passes) fill(ctx context.Context) {
	if err := usage.UpdateHistory(ctx, p.Catalog, p.Client, p.setup.Now()); err != nil && ctx.Err() == nil {
		p.log.Warn("the history is not up to date", "reason", err.Error())
	}
}

// LogOutput returns a function that logs the output of programs.
func LogOutput(log *slog.Logger) func(jobs.OutputLine) {
	return func(l jobs.OutputLine) { log.Info("output", "region", l.Region, "job", l.Job, "line", l.Text) }
}
