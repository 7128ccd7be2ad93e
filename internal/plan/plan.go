// Package plan simulates a schedule against budgets before it runs. Every tick
// of the coming days spends its calls through a real quota.Guard, on a ledger
// with a simulated clock. The Report says which calls would be refused, when
// and of which region, and how full each budget gets, with every start on time
// and with starts up to a given jitter late.
//
// A pass requests the most that it may: all pages of each step, all calls of
// each program. Its calls are spent one after another at the time of its
// tick, and none of them waits. When a call is refused, the rest of its step
// is dropped.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// MaxCalls is the largest number of calls in a plan. Each call is spent a
// microsecond after the one before, so all are within a second of their ticks.
const MaxCalls = 1_000_000

// ErrTooLong means that a plan has more than MaxCalls calls.
var ErrTooLong = errors.New("plan: too long")

// Input describes a plan. All fields but Open, State and Jitter are required.
type Input struct {
	Regions []jobs.Region
	Price   func(method string) (quota.Call, error) // prices a step's method, such as costs.Table.Call
	Budgets []quota.Budget                          // of all accounts

	// Open returns an empty ledger that uses now as its clock. Play closes it.
	// nil opens one of package memledger.
	Open func(now func() time.Time) quota.Ledger
	// State is the content of the ledger at From.
	State State

	From, To time.Time     // the plan covers ticks at or after From and before To
	Jitter   time.Duration // the most that a start may be late, truncated to microseconds

	trying bool // one of the budgets is a shadow that is tried
}

// Report is the result of Play.
type Report struct {
	// Fits reports that no call is refused, however late each start is within
	// the jitter.
	Fits  bool
	From  time.Time
	To    time.Time
	Ticks int
	Calls int         // calls that the schedule requests
	Units quota.Units // their units
	Least quota.Units // their units if every list ends on its first page, no channel is new and no program calls

	Budgets     []BudgetReport // in the order of Input.Budgets
	Regions     []RegionReport // in the order of Input.Regions
	TickResults []TickResult   // one for each tick, in order
	First       *Refusal       // the first refusal; nil if there is none
	AtWorst     []string       // steps whose number of calls varies; they are planned with the most

	Uncounted []string // programs that name no calls in regions.yaml, and are planned with none
}

// BudgetReport describes one budget under the schedule. Its peaks include what
// the ledger holds and all requested calls, even those that are refused.
type BudgetReport struct {
	Budget   quota.Budget
	Touched  bool        // some step is charged to the budget
	Peak     quota.Units // the most that the window holds if every start is on time
	PeakAt   time.Time   // the first time at which it holds Peak; zero if Peak is 0
	PeakLate quota.Units // the most that the window can hold if starts are late independently
	// Need is the most of the limit that one call requires: what is used, and
	// the floors of other regions. Without floors it equals PeakLate.
	Need quota.Units
	Over bool // Need may exceed the limit
	// calls that the budget refused, and those dropped after them; of a shadow, that it would
	// refuse
	Refused int
	First   time.Time   // the tick of the first call that it refused; zero if there is none
	Unused  quota.Units // the limit less PeakLate, at least 0
	// UnusedMean is the part of the limit that granted calls leave unused,
	// averaged over the time of the plan.
	UnusedMean quota.Units

	load *load
}

// RegionReport describes one region under the schedule.
type RegionReport struct {
	Region       string
	Ticks        int
	Hit          int         // ticks with a refusal
	Planned      int         // calls requested
	Units        quota.Units // units requested
	Refused      int         // calls refused, and those dropped after them
	RefusedUnits quota.Units
	First        *Refusal // nil if none is refused
}

// Refusal is a refused call.
type Refusal struct {
	At     time.Time
	Local  time.Time // At in the zone of the region's schedule
	Region string
	Step   string
	Err    *quota.RefusedError
}

// TickResult is the result of one tick.
type TickResult struct {
	At      time.Time   `json:"at"`
	Region  string      `json:"region"`
	Calls   int         `json:"calls"`   // calls granted
	Units   quota.Units `json:"units"`   // units granted
	Refused int         `json:"refused"` // calls refused, and those dropped after them
}

// Play simulates the schedule. The error is ErrTooLong, a *quota.NeverFitsError
// for a call that exceeds a whole limit, an error of quota.NewGuard or
// in.Price, or the context's.
func Play(ctx context.Context, in *Input) (*Report, error) {
	d, err := newDemand(in)
	if err != nil {
		return nil, err
	}
	report := d.newReport()
	p := &player{demand: d, report: report}
	if err := p.play(ctx); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	for i := range report.Budgets {
		b := &report.Budgets[i]
		report.Fits = report.Fits && (!b.Over || b.Budget.Shadow)
		if b.Budget.Shadow && !in.trying {
			if err := b.tryShadow(ctx, in, i); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// tryShadow sets what a shadow would refuse if it were a budget like
// the others.
func (b *BudgetReport) tryShadow(ctx context.Context, in *Input, index int) error {
	tried := *in
	tried.trying = true
	tried.Budgets = slices.Clone(in.Budgets)
	tried.Budgets[index].Shadow = false
	report, err := Play(ctx, &tried)
	if err == nil {
		b.Refused, b.First = report.Budgets[index].Refused, report.Budgets[index].First
	}
	return err
}

// newReport returns the part of the report that is known before the simulation.
func (d *demand) newReport() *Report {
	report := &Report{Fits: true, From: d.in.From.UTC(), To: d.in.To.UTC(), Ticks: len(d.ticks), AtWorst: d.atWorst(),
		Uncounted: d.uncounted()}
	for i := range d.regions {
		r := &d.regions[i]
		ticks := len(r.ticks)
		region := RegionReport{Region: r.region, Ticks: ticks, Planned: ticks * r.calls,
			Units: quota.Units(ticks) * r.units}
		report.Regions = append(report.Regions, region)
		report.Calls += region.Planned
		report.Units += region.Units
		report.Least += quota.Units(ticks) * r.least
	}
	for i := range d.in.Budgets {
		l := d.in.newLoad(i)
		l.setTicks(d, i, true)
		onTime, late := l.findPeak(0), l.findPeak(d.in.Jitter.Microseconds())
		b := BudgetReport{
			Budget:   d.in.Budgets[i],
			Touched:  l.isCharged(),
			Peak:     quota.Units(onTime.used),
			PeakLate: quota.Units(late.used),
			Need:     quota.Units(max(late.need, late.used)),
			Over:     late.excess > 0,
			Unused:   max(0, d.in.Budgets[i].Limit-quota.Units(late.used)),
			load:     l,
		}
		if onTime.used > 0 {
			b.PeakAt = fromMicros(onTime.at)
		}
		report.Budgets = append(report.Budgets, b)
	}
	return report
}

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// Starved returns the regions that lose the largest share of their calls, in
// the order of r.Regions, or nil if no call is refused.
func (r *Report) Starved() []*RegionReport {
	var starved []*RegionReport
	for i := range r.Regions {
		region := &r.Regions[i]
		if region.Refused == 0 {
			continue
		}
		more := 1
		if starved != nil {
			more = cmp.Compare(region.Refused*starved[0].Planned, starved[0].Refused*region.Planned)
		}
		switch {
		case more > 0:
			starved = []*RegionReport{region}
		case more == 0:
			starved = append(starved, region)
		}
	}
	return starved
}
