package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// demand is everything that a schedule requests, with every start on time.
// Times are microseconds since the Unix epoch.
type demand struct {
	in      *Input
	from    int64
	to      int64
	regions []regionDemand
	ticks   []tick // by time, then by region
	spare   []tick // buffer of mergeTicks
}

// tick is one pass of a region, given by its index.
type tick struct {
	at     int64
	region int
}

// regionDemand is what each tick of a region requests.
type regionDemand struct {
	region  string
	zone    *time.Location
	steps   []stepDemand
	calls   int
	units   quota.Units
	least   quota.Units // units if every step fetches its fewest pages
	weights []int64     // amount charged to each budget
	ticks   []int64
}

// stepDemand is what a step of each tick requests.
type stepDemand struct {
	page    []callDemand // what a page requests
	pages   int
	calls   int         // of a page
	units   quota.Units // of a page
	weights []int64     // amount that a page charges to each budget
}

// callDemand is a number of equal calls.
type callDemand struct {
	quota.Call
	most    int
	weights []int64 // amount that one of them charges to each budget
}

func newDemand(in *Input) (*demand, error) {
	d := &demand{in: in, from: in.From.UnixMicro(), to: in.To.UnixMicro()}
	calls := 0
	for i := range in.Regions {
		r, err := in.priceRegion(&in.Regions[i])
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		r.ticks, err = d.listTicks(in.Regions[i].Schedule, (MaxCalls-calls)/max(1, r.calls))
		if err != nil {
			return nil, err
		}
		calls += len(r.ticks) * r.calls
		d.regions = append(d.regions, r)
	}
	d.mergeTicks()
	return d, nil
}

// listTicks returns the ticks of a schedule, or ErrTooLong if there are more
// than limit.
func (d *demand) listTicks(schedule jobs.Schedule, limit int) ([]int64, error) {
	var ticks []int64
	for t := schedule.Next(d.in.From.Add(-1)); !t.IsZero() && t.Before(d.in.To); t = schedule.Next(t) {
		if len(ticks) >= limit {
			return nil, fmt.Errorf("%w: more than %d calls; plan fewer days", ErrTooLong, MaxCalls)
		}
		ticks = append(ticks, t.UnixMicro())
	}
	return ticks, nil
}

// mergeTicks sets d.ticks to the ticks of all regions.
func (d *demand) mergeTicks() {
	d.ticks = d.ticks[:0]
	for region := range d.regions {
		rest, own := d.ticks, d.regions[region].ticks
		merged := d.spare[:0]
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

// priceRegion returns what each tick of a region requests, without its ticks.
func (in *Input) priceRegion(region *jobs.Region) (regionDemand, error) {
	r := regionDemand{region: region.Name, zone: region.Schedule.Zone(), weights: make([]int64, len(in.Budgets))}
	for _, step := range region.Steps {
		s, err := in.priceStep(step, region.Name)
		if err != nil {
			return r, err
		}
		for i, amount := range s.weights {
			r.weights[i] += int64(s.pages) * amount
		}
		r.steps = append(r.steps, s)
		r.calls += s.pages * s.calls
		r.units += quota.Units(s.pages) * s.units
		r.least += quota.Units(fewestPages(step)) * s.units
	}
	return r, nil
}

// priceStep returns what a step of a region requests.
func (in *Input) priceStep(step jobs.Step, region string) (stepDemand, error) {
	s := stepDemand{pages: step.Pages, weights: make([]int64, len(in.Budgets))}
	for _, calls := range step.Calls() {
		call, err := in.Price(calls.Method)
		if err != nil {
			return s, err
		}
		call.Caller = quota.Caller{Lane: jobs.Lane, Job: step.Name(), Region: region}
		c := callDemand{Call: call, most: calls.Most, weights: make([]int64, len(in.Budgets))}
		for i := range in.Budgets {
			b := &in.Budgets[i]
			if coverage := b.Coverage(); b.Account == call.Account &&
				coverage.Covers(call.Method, call.Caller.Lane, call.Caller.Region) {
				c.weights[i] = int64(b.Amount(&call))
				s.weights[i] += int64(c.most) * c.weights[i]
			}
		}
		s.page = append(s.page, c)
		s.calls += c.most
		s.units += quota.Units(c.most) * call.Units
	}
	return s, nil
}

// fewestPages returns how many pages a step fetches at least.
func fewestPages(s jobs.Step) int {
	if s.Kind == jobs.Channels || s.Kind == jobs.Command { // none may be new, or none called
		return 0
	}
	return 1
}

// uncounted returns the names of the programs that name no calls.
func (d *demand) uncounted() []string {
	return d.stepNames(func(s jobs.Step) bool { return len(s.Calls()) == 0 })
}

// atWorst returns the names of the steps whose number of calls varies.
func (d *demand) atWorst() []string {
	return d.stepNames(func(s jobs.Step) bool { return len(s.Calls()) > 0 && s.Pages > fewestPages(s) })
}

// stepNames returns the different names of the steps that match.
func (d *demand) stepNames(match func(jobs.Step) bool) []string {
	var names []string
	for i := range d.in.Regions {
		for _, s := range d.in.Regions[i].Steps {
			if name := s.Name(); match(s) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// eachHeld calls yield for every entry of the ledger that is charged to a
// budget, given by its index, with the amount charged.
func (in *Input) eachHeld(budget int, yield func(e *HeldEntry, amount int64)) {
	b, coverage := &in.Budgets[budget], in.Budgets[budget].CoverageAmong(in.Budgets)
	entries := in.State.Entries[b.Account]
	for i := range entries {
		e := &entries[i]
		amount := int64(quota.Amounts{Units: e.Units, Calls: e.Calls}.Of(b.Measure))
		isOfOthers := b.PerKey && e.Key != ""
		if amount != 0 && !isOfOthers && coverage.Covers(e.Method, e.Caller.Lane, e.Caller.Region) {
			yield(e, amount)
		}
	}
}
