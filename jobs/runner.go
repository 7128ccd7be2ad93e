package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
)

// DefaultParallel is the default number of regions that a Runner
// fetches concurrently.
const DefaultParallel = 4

// DefaultGrace is how long a cancelled run waits for the pages in flight, which
// are already charged.
const DefaultGrace = 3 * time.Second

// ErrCatalogReplaced is in the error of a region if the catalogue's file was
// deleted or replaced: open it again.
var ErrCatalogReplaced = catalog.ErrReplaced

// Runner fetches passes as far as the budgets allow. Catalog is required, and
// Client for regions with YouTube steps, Guard and Table for those with
// programs. With a Guard, each pass is claimed in its ledger, so that of all
// hosts that share the ledger one runs it. A Runner must not be modified while
// Run is executing.
type Runner struct {
	Catalog *catalog.Catalog
	Client  *youtube.Client
	Meter   *Meter // the one that Client's transport reports to; nil leaves Calls and Units 0

	Guard   *quota.Guard // in whose ledger passes are claimed; nil claims none
	Table   *costs.Table
	Gateway command.Gateway  // through which programs are guarded; nil gives them none
	Host    string           // the name of this host in claims; may be empty
	State   string           // the state folder, where ration spend says what it refused; "" is none
	Environ []string         // the environment of programs; nil means os.Environ
	Output  func(OutputLine) // called with each line that a program prints, never concurrently for one step; may be nil

	Lane      string           // lane of the calls; "" means Lane, that of scheduled work
	Parallel  int              // regions fetched concurrently; 0 means DefaultParallel
	Grace     time.Duration    // wait for pages in flight after cancellation; 0 means DefaultGrace
	ClaimTime time.Duration    // how long a pass stays claimed after its last renewal; 0 means DefaultClaimTime
	Again     bool             // fetch passes that are already finished, and steps that wait after failures
	Now       func() time.Time // clock; nil means time.Now
	Progress  func(Progress)   // called after every page, never concurrently; may be nil
}

// Progress describes how far a region's pass has come.
type Progress struct {
	Region  string
	Step    string // name of the step whose page was committed; "" when Done
	Pages   int    // pages committed, of all steps
	Done    bool
	Outcome Outcome // valid if Done
}

// OutputLine is a line of a program's output.
type OutputLine struct {
	Region string
	Job    string
	Text   string
}

// Outcome is how a region's pass, or a run, ended.
type Outcome string

// The outcomes, best first.
const (
	Complete Outcome = "complete"
	Skipped  Outcome = "skipped" // already finished, or another run or host has it
	Stopped  Outcome = "stopped" // by a budget, a cooldown, a busy ledger or cancellation; a later run resumes it
	Failed   Outcome = "failed"
)

// RegionReport is the result of a run for one region.
type RegionReport struct {
	Region  string
	Tick    time.Time
	Outcome Outcome
	Calls   int         // calls charged
	Units   quota.Units // units charged
	Videos  int         // rows fetched; a video on two pages counts twice
	Started int         // programs started

	// Unmetered means that Calls and Units lack what programs were charged,
	// because the ledger did not say.
	Unmetered bool

	RetryAt time.Time // earliest time at which a refused step may resume; zero if none was refused or it is unknown
	Err     error     // nil if the pass is complete; a failure takes precedence over a refusal
	Waiting []error   // a *BackoffError for each step that waits; Err may be another refusal
}

// Report is the result of a run.
type Report struct {
	Outcome Outcome     // the worst of the regions' outcomes; Skipped counts as Complete
	Units   quota.Units // units charged
	RetryAt time.Time   // the earliest RetryAt of the regions; zero if none has one
	Err     error       // Err of the first region with this outcome
	Regions []RegionReport
}

// Run fetches the missing pages of each region's current pass and returns a
// report whose Regions are in the order of regions. The region that was fetched
// longest ago goes first. When ctx is cancelled no new page is begun, and pages
// in flight have Grace to arrive. The error is non-nil only if the catalogue
// cannot be read; everything else is in the report.
func (r *Runner) Run(ctx context.Context, regions []Region) (*Report, error) {
	names := make([]string, len(regions))
	indexes := map[string]int{}
	for i, region := range regions {
		names[i] = region.Name
		indexes[region.Name] = i
	}
	order, err := r.Catalog.LongestUnfetched(ctx, names)
	if err != nil {
		return nil, err
	}
	reports := make([]RegionReport, len(regions))
	next := make(chan int, len(order))
	for _, name := range order {
		next <- indexes[name]
	}
	close(next)
	var wg sync.WaitGroup
	var run runState
	for range min(cmp.Or(r.Parallel, DefaultParallel), len(regions)) {
		wg.Go(func() {
			for i := range next {
				caller := quota.Caller{Lane: cmp.Or(r.Lane, Lane), Region: regions[i].Name}
				p := &pass{Runner: r, runState: &run, stop: ctx, region: regions[i]}
				reports[i] = p.run(caller)
			}
		})
	}
	wg.Wait()
	return summarize(reports), nil
}

// runState is what the concurrent passes of one run share.
type runState struct {
	progressMu sync.Mutex // held while Runner.Progress is called
	hopeless   sync.Map   // methods that will keep failing, each with its error
}

func (r *Runner) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// summarize combines the reports of all regions.
func summarize(regions []RegionReport) *Report {
	report := &Report{Outcome: Complete, Regions: regions}
	rank := func(o Outcome) int { return slices.Index([]Outcome{Complete, Stopped, Failed}, o) }
	for _, region := range regions {
		report.Units += region.Units
		if rank(region.Outcome) > rank(report.Outcome) {
			report.Outcome, report.Err = region.Outcome, region.Err
		}
		report.RetryAt = earlier(report.RetryAt, region.RetryAt)
	}
	return report
}

// Worst returns the region's error that has the lowest rank, the first of
// several, or nil if no region has an error. Skipped regions have none. An
// error that stopped a region without a refusal is ranked and returned as a
// *StoppedError.
func (r *Report) Worst(rank func(error) int) (worst error) {
	for _, region := range r.Regions {
		err := region.Err
		if err == nil || region.Outcome == Skipped {
			continue
		}
		if region.Outcome == Stopped && !errors.Is(err, quota.ErrRefused) {
			err = &StoppedError{err}
		}
		if worst == nil || rank(err) < rank(worst) {
			worst = err
		}
	}
	return worst
}

// earlier returns the earlier of two times. A zero time is unknown and loses.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
