package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// Suggestion is a schedule that fits, or why there is none.
type Suggestion struct {
	Regions []jobs.Region // all, in the order of Input.Regions
	Changes []Change
	Report  *Report // of playing it; nil when nothing was found that fits
	Reason  string  // why nothing was
}

// Change is one thing that a suggestion changes, in the words of regions.yaml.
type Change struct {
	Region string
	What   string // "schedule", or the step whose pages change
	From   string
	To     string
}

// Suggest looks for a schedule that fits where that of in does not; report is
// what playing it came to. It tries other minutes first, which lose nothing,
// and then longer periods and fewer pages, step by step the one that helps most for
// the calls that it loses. Every region that ticks keeps a tick. Of what it
// proposes no change can be taken back by itself, wholly or by a step. It was
// played, over what in covers and over a week at least, or the longest window if that
// is longer: a start that is late may stand in the window of the next day's.
//
// A schedule that fits from an empty ledger is not changed: what this one holds goes away.
func Suggest(ctx context.Context, in *Input, report *Report) (*Suggestion, error) {
	if f := report.First; f != nil && f.Err.Reason == quota.ReasonCooldown {
		return &Suggestion{Reason: fmt.Sprintf("%v; plan --from then", f.Err)}, nil
	}
	empty := *in
	empty.State = State{}
	var s *search
	for _, from := range []*Input{&empty, in} {
		var found variant
		var err error
		if s, found, err = from.search(ctx); err != nil {
			return nil, err
		}
		if s.began.excess == 0 && from == &empty {
			return &Suggestion{Reason: fits(report)}, nil
		}
		if found == nil {
			continue
		}
		suggestion, err := s.propose(found, in)
		if err != nil || suggestion != nil {
			return suggestion, err
		}
	}
	return &Suggestion{Reason: s.why()}, nil
}

// fits says that only what the ledger holds is in the way.
func fits(report *Report) string {
	when := ""
	if report.First != nil {
		when = ", with room again at " + quota.Stamp(report.First.Err.RetryAt)
	}
	return fmt.Sprintf("from an empty ledger the schedule fits as it is; only what the ledger holds now is in the way%s", when)
}

// search looks for a variant over a longer stretch of time, as far as that is possible.
func (in *Input) search(ctx context.Context) (*search, variant, error) {
	longer := *in
	longer.To = in.stretch()
	s, err := newSearch(ctx, &longer)
	if errors.Is(err, ErrTooLong) {
		s, err = newSearch(ctx, in)
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := s.find()
	return s, found, err
}

// propose plays a variant, where it was searched for and from what the ledger
// holds, and returns nil when it does not fit.
func (s *search) propose(v variant, in *Input) (*Suggestion, error) {
	regions, err := s.write(v)
	if err != nil {
		return nil, err
	}
	searched, asked := *s.in, *in
	var played *Report
	for _, in := range []*Input{&searched, &asked} {
		in.Regions = regions
		if played, err = Play(s.ctx, in); err != nil || !played.Fits {
			return nil, err
		}
	}
	return &Suggestion{Regions: regions, Changes: changes(in.Regions, regions), Report: played}, nil
}

// stretch returns until when a suggestion is tried.
func (in *Input) stretch() time.Time {
	const least, most = 8 * 24 * time.Hour, 40 * 24 * time.Hour
	length := least
	for i := range in.Budgets {
		length = max(length, in.Budgets[i].Window.Horizon()+24*time.Hour)
	}
	if end := in.From.Add(min(length, most)); end.After(in.To) {
		return end
	}
	return in.To
}

// write returns the regions of a variant.
func (s *search) write(v variant) ([]jobs.Region, error) {
	var regions []jobs.Region
	for i, region := range s.in.Regions {
		if v[i].spec != region.Schedule.String() {
			schedule, err := jobs.ParseSchedule(v[i].spec, region.Schedule.Zone())
			if err != nil {
				return nil, fmt.Errorf("plan: suggest: %w", err)
			}
			region.Schedule = schedule
		}
		region.Steps = slices.Clone(region.Steps)
		for j := range region.Steps {
			region.Steps[j].Pages = v[i].pages[j]
		}
		regions = append(regions, region)
	}
	return regions, nil
}

func changes(from, to []jobs.Region) []Change {
	var all []Change
	for i := range from {
		if a, b := from[i].Schedule.String(), to[i].Schedule.String(); a != b {
			all = append(all, Change{from[i].Name, "schedule", a, b})
		}
		for j := range from[i].Steps {
			if a, b := from[i].Steps[j].Pages, to[i].Steps[j].Pages; a != b {
				all = append(all, Change{from[i].Name, from[i].Steps[j].Name(), strconv.Itoa(a), strconv.Itoa(b)})
			}
		}
	}
	return all
}

// why says what keeps every schedule from fitting: the call for which there is
// no room even in the lightest one.
func (s *search) why() string {
	lightest, ok := s.lightest(s.original)
	if !ok {
		return "no schedule was found that fits; lower pages or raise a limit in costs.yaml"
	}
	s.measure(lightest)
	for i, q := range s.questions {
		worst := q.ask(s.late)
		if worst.excess == 0 {
			continue
		}
		region, step := s.largest(i)
		pass, b := s.demand.passes[region], q.budget
		call := pass.steps[step].call
		never := fmt.Sprintf("%s of %s (%s) never fits: ", call.Caller.Job, pass.region, call.Method)
		held := q.held.sum(q.since(q.ticks.at[0]), q.ticks.at[0])
		switch {
		case pass.weights[i] > int64(b.Limit):
			return never + fmt.Sprintf("one pass with one page a step asks for %d %s of %s, whose limit is %d; fetch less there, or raise the limit", pass.weights[i], b.Measure, b.Name, b.Limit)
		case held > 0 && !b.Window.Estimate():
			return never + fmt.Sprintf("at %s %s still holds %d of %d %s from before; plan --from later, or --fresh", quota.Stamp(instant(q.ticks.at[0])), b.Name, held, b.Limit, b.Measure)
		}
		floors := ""
		if worst.need > worst.peak {
			floors = " with what it keeps for other regions"
		}
		return never + fmt.Sprintf("with the fewest ticks and one page a step %s may still be asked for %d %s%s, and its limit is %d; fetch in fewer regions, or raise the limit", b.Name, worst.need, b.Measure, floors, b.Limit)
	}
	return "no schedule was found that fits; fetch in fewer regions, or raise a limit in costs.yaml"
}

// largest returns the region with the largest pass for a budget, and of its
// steps the one whose call counts most.
func (s *search) largest(budget int) (region, step int) {
	for i := range s.demand.passes {
		if s.demand.passes[i].weights[budget] > s.demand.passes[region].weights[budget] {
			region = i
		}
	}
	pages := s.perPage[region]
	for j := range pages {
		if pages[j][budget] > pages[step][budget] {
			step = j
		}
	}
	return region, step
}
