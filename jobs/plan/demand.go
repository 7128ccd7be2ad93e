package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// demand is all that a schedule asks for, on the dot.
type demand struct {
	in     *Input
	from   int64 // instants are microseconds since the Unix epoch
	to     int64
	passes []pass // by region
	ticks  []tick // in the order of time, those of one instant in the order of regions
	spare  []tick // to merge into
}

// tick is one pass of a region.
type tick struct {
	at     int64
	region int
}

// pass is what each tick of a region asks for.
type pass struct {
	region  string
	zone    *time.Location
	steps   []step
	calls   int
	units   quota.Units
	least   quota.Units
	weights []int64 // what it counts for, by budget
	ticks   []int64
}

type step struct {
	call  quota.Call
	pages int
}

func newDemand(in *Input) (*demand, error) {
	d := &demand{in: in, from: in.From.UnixMicro(), to: in.To.UnixMicro()}
	calls := 0
	for i := range in.Regions {
		pass, err := in.pass(&in.Regions[i])
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		pass.ticks, err = d.comes(in.Regions[i].Schedule, (MaxCalls-calls)/max(1, pass.calls))
		if err != nil {
			return nil, err
		}
		calls += len(pass.ticks) * pass.calls
		d.passes = append(d.passes, pass)
	}
	d.merge()
	return d, nil
}

// comes returns the ticks of a schedule, at most so many.
func (d *demand) comes(schedule jobs.Schedule, most int) ([]int64, error) {
	var ticks []int64
	for t := schedule.Next(d.in.From.Add(-1)); !t.IsZero() && t.Before(d.in.To); t = schedule.Next(t) {
		if len(ticks) >= most {
			return nil, fmt.Errorf("%w: more than %d calls; plan fewer days", ErrTooLong, MaxCalls)
		}
		ticks = append(ticks, t.UnixMicro())
	}
	return ticks, nil
}

// merge puts the ticks of all regions into one order.
func (d *demand) merge() {
	d.ticks = d.ticks[:0]
	for region := range d.passes {
		rest, own, merged := d.ticks, d.passes[region].ticks, d.spare[:0]
		for len(own) > 0 {
			if len(rest) > 0 && rest[0].at <= own[0] {
				merged, rest = append(merged, rest[0]), rest[1:]
			} else {
				merged, own = append(merged, tick{own[0], region}), own[1:]
			}
		}
		d.ticks, d.spare = append(merged, rest...), d.ticks
	}
}

// pass prices what a region fetches.
func (in *Input) pass(region *jobs.Region) (pass, error) {
	p := pass{region: region.Name, zone: region.Schedule.Zone(), weights: make([]int64, len(in.Budgets))}
	for _, fetched := range region.Steps {
		call, err := in.Price(fetched.Method())
		if err != nil {
			return p, err
		}
		call.Caller = quota.Caller{Lane: jobs.Lane, Job: fetched.Name(), Region: region.Name}
		p.steps = append(p.steps, step{call, fetched.Pages})
		p.calls += fetched.Pages
		p.units += quota.Units(fetched.Pages) * call.Units
		p.least += quota.Units(least(fetched)) * call.Units
		for i := range in.Budgets {
			b := &in.Budgets[i]
			if coverage := b.Coverage(); b.Account == call.Account && coverage.Covers(call.Method, call.Caller) {
				p.weights[i] += int64(fetched.Pages) * int64(coverage.Amount(call.Units))
			}
		}
	}
	return p, nil
}

// least returns how many pages a step is fetched at least.
func least(s jobs.Step) int {
	if s.Kind == jobs.Channels { // none may be new
		return 0
	}
	return 1
}

// atWorst names the steps whose number of pages is a range.
func (d *demand) atWorst() []string {
	var names []string
	for i := range d.in.Regions {
		for _, s := range d.in.Regions[i].Steps {
			if name := s.Name(); s.Pages > least(s) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// held returns the entries that count for the budget at a place, with what they
// count for.
func (in *Input) held(place int, count func(e *quota.Entry, amount int64)) {
	b, coverage := &in.Budgets[place], quota.Coverages(in.Budgets)[place]
	entries := in.State.Entries[b.Account]
	for i := range entries {
		e := &entries[i]
		amount := int64(e.Units)
		if b.Measure == quota.Calls {
			amount = int64(e.Calls)
		}
		if amount != 0 && coverage.Covers(e.Method, e.Caller) {
			count(e, amount)
		}
	}
}
