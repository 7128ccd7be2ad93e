// Package plan plays a schedule against budgets before it runs: every tick of
// the days to come spends its calls through a real quota.Guard, on a ledger
// with a clock of its own. It says which calls would be refused, when and whose,
// and how full each budget gets: on the dot, and however late the starts are.
//
// A pass asks for the most that it may: all pages of each step. Its calls are
// spent one after another at one instant, and none of them waits. Where one is
// refused, the rest of its step is dropped: the next tick begins a new pass.
package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// MaxCalls is how many calls a plan may come to. Each is spent a microsecond
// after the one before, and so all of them within a second of their ticks.
const MaxCalls = 1_000_000

// ErrTooLong means that a plan comes to more than MaxCalls.
var ErrTooLong = errors.New("plan: too long")

// Input is what is played.
type Input struct {
	Regions []jobs.Region
	Price   func(method string) (quota.Call, error) // of the steps' methods; costs.Table.Call is one
	Budgets []quota.Budget                          // of all accounts

	// Open returns an empty ledger on a clock; it is closed when all was played.
	Open func(now func() time.Time) quota.Ledger
	// State is what the ledger holds at From.
	State State

	From, To time.Time     // ticks at or after From and before To
	Jitter   time.Duration // a start is so late at most; in whole microseconds, what is left over is dropped
}

// Report is what a play came to.
type Report struct {
	// Fits says that no call is refused, whatever the lateness of each start
	// within the jitter.
	Fits  bool
	From  time.Time
	To    time.Time
	Ticks int
	Calls int         // that the schedule asks for
	Units quota.Units // of these
	Least quota.Units // of these when every chart ends on its first page, and no channel is new

	Budgets []BudgetReport // in the order of Input.Budgets
	Regions []RegionReport // in the order of Input.Regions
	Plays   []Played       // the ticks, in their order
	First   *Refusal       // nil when nothing is refused
	AtWorst []string       // the steps whose number of pages is known only when they are fetched
}

// BudgetReport is one budget under the schedule. Peaks are of what the
// schedule asks for, whether or not it is refused, and of what the ledger holds.
type BudgetReport struct {
	Budget   quota.Budget
	Touched  bool        // some step is charged to it
	Peak     quota.Units // the most that its window holds, every start on the dot
	PeakAt   time.Time   // when first; zero when it holds nothing
	PeakLate quota.Units // the most that it can hold when each start is late by itself
	// Need is PeakLate together with what is kept for the floors of other
	// regions then. Without floors it is PeakLate.
	Need    quota.Units
	Over    bool        // a call may find no room
	Refused int         // calls that it refused, with those that were dropped behind them
	Unused  quota.Units // of the limit, at the fullest moment of PeakLate
	// UnusedMean is what of the limit is not used by what is granted, as a mean
	// over the time that is played.
	UnusedMean quota.Units

	question *question
	coverage *quota.Coverage
}

// RegionReport is one region's part.
type RegionReport struct {
	Region       string
	Ticks        int
	Hit          int // ticks with a refusal
	Planned      int // calls
	Units        quota.Units
	Refused      int // calls, with those that were dropped behind a refused one
	RefusedUnits quota.Units
	First        *Refusal // nil when nothing is refused
}

// Refusal is a call that was refused.
type Refusal struct {
	At     time.Time
	Local  time.Time // the same in the zone of the region's schedule
	Region string
	Step   string
	Err    *quota.RefusedError
}

// Played is one tick.
type Played struct {
	At      time.Time
	Region  string
	Calls   int // granted
	Units   quota.Units
	Refused int
}

// Play plays the schedule. The error is ErrTooLong, a *quota.NeverFitsError
// for a call that no waiting helps, that of NewGuard or Input.Price, or the context's.
func Play(ctx context.Context, in *Input) (*Report, error) {
	d, err := newDemand(in)
	if err != nil {
		return nil, err
	}
	report := d.report()
	p := &player{demand: d, report: report}
	if err := p.play(ctx); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	for i := range report.Budgets {
		report.Fits = report.Fits && !report.Budgets[i].Over
	}
	return report, nil
}

// report returns what is known before anything is played.
func (d *demand) report() *Report {
	report := &Report{Fits: true, From: d.in.From.UTC(), To: d.in.To.UTC(), Ticks: len(d.ticks), AtWorst: d.atWorst()}
	for i := range d.passes {
		pass := &d.passes[i]
		report.Regions = append(report.Regions, RegionReport{Region: pass.region})
		report.Regions[i].Ticks = len(pass.ticks)
		report.Regions[i].Planned = len(pass.ticks) * pass.calls
		report.Regions[i].Units = quota.Units(len(pass.ticks)) * pass.units
		report.Calls += report.Regions[i].Planned
		report.Units += report.Regions[i].Units
		report.Least += quota.Units(len(pass.ticks)) * pass.least
	}
	late := d.in.Jitter.Microseconds()
	for i := range d.in.Budgets {
		q := d.in.question(i)
		q.fill(d, i, true)
		dot, worst := q.ask(0), q.ask(late)
		b := BudgetReport{Budget: d.in.Budgets[i], Touched: q.touched(), question: q, coverage: d.in.Budgets[i].Coverage(),
			Peak: quota.Units(dot.peak), PeakLate: quota.Units(worst.peak), Need: quota.Units(max(worst.need, worst.peak)), Over: worst.excess > 0,
			Unused: max(0, d.in.Budgets[i].Limit-quota.Units(worst.peak))}
		if dot.peak > 0 {
			b.PeakAt = instant(dot.at)
		}
		report.Budgets = append(report.Budgets, b)
	}
	return report
}

func instant(micro int64) time.Time { return time.UnixMicro(micro).UTC() }
