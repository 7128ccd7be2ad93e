package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// Suggestion is a schedule that fits, or the reason why none was found.
type Suggestion struct {
	Regions []jobs.Region // all regions, in the order of Input.Regions
	Changes []Change
	Report  *Report // the result of playing it; nil if no schedule was found
	Reason  string  // why no schedule was found
}

// Change is one change of a Suggestion, in the terms of regions.yaml.
type Change struct {
	Region string `json:"region"`
	What   string `json:"what"` // "schedule", or the name of the step whose pages change
	From   string `json:"from"`
	To     string `json:"to"`
}

// Suggest looks for a schedule that fits in place of in.Regions, which do not;
// report is the result of playing them. It first tries other minutes, which
// cost no calls, and then fewer ticks and fewer pages, preferring changes that
// help most for the calls that they cost. Every region that has ticks keeps at
// least one, and no single change of the result can be reverted.
//
// A suggestion has been played over the time of in, and over at least eight
// days or the longest window and a day. If the schedule fits from an empty
// ledger, Suggest changes nothing, since what the ledger holds expires.
func Suggest(ctx context.Context, in *Input, report *Report) (*Suggestion, error) {
	if f := report.First; f != nil && f.Err.Reason == quota.ReasonCooldown {
		return &Suggestion{Reason: fmt.Sprintf("%v; plan --from then", f.Err)}, nil
	}
	enforced := *in
	enforced.Budgets = slices.DeleteFunc(slices.Clone(in.Budgets), func(b quota.Budget) bool { return b.Shadow })
	in = &enforced
	empty := *in
	empty.State = State{}
	var s *scheduleSearch
	for _, from := range []*Input{&empty, in} {
		var found variant
		var err error
		if s, found, err = from.searchSchedules(ctx); err != nil {
			return nil, err
		}
		if s.originalScore.excess == 0 && from == &empty {
			reason := "from an empty ledger the schedule fits as it is; only what the ledger holds now is in the way"
			if report.First != nil {
				reason += ", with room again at " + human.Time(report.First.Err.RetryAt)
			}
			return &Suggestion{Reason: reason}, nil
		}
		if found == nil {
			continue
		}
		suggestion, err := s.propose(found, in)
		if err != nil || suggestion != nil {
			return suggestion, err
		}
	}
	return &Suggestion{Reason: s.explainMisfit()}, nil
}

// searchSchedules searches until in.searchEnd, or until in.To if that would be
// too many calls.
func (in *Input) searchSchedules(ctx context.Context) (*scheduleSearch, variant, error) {
	longer := *in
	longer.To = in.searchEnd()
	s, err := newSearch(ctx, &longer)
	if errors.Is(err, ErrTooLong) {
		s, err = newSearch(ctx, in)
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := s.findBest()
	return s, found, err
}

// propose plays a variant both as it was searched for and from what the ledger
// holds. It returns nil if the variant does not fit in both.
func (s *scheduleSearch) propose(v variant, in *Input) (*Suggestion, error) {
	regions, err := s.applyTo(v)
	if err != nil {
		return nil, err
	}
	var played *Report
	for _, input := range []Input{*s.in, *in} {
		input.Regions = regions
		if played, err = Play(s.ctx, &input); err != nil || !played.Fits {
			return nil, err
		}
	}
	return &Suggestion{Regions: regions, Changes: listChanges(in.Regions, regions), Report: played}, nil
}

// searchEnd returns until when suggestions are tried. It is late enough for a
// late start to meet the next day's ticks in every window.
func (in *Input) searchEnd() time.Time {
	const least, most = 8 * 24 * time.Hour, 40 * 24 * time.Hour
	length := least
	for i := range in.Budgets {
		length = max(length, in.Budgets[i].Horizon()+24*time.Hour)
	}
	if end := in.From.Add(min(length, most)); end.After(in.To) {
		return end
	}
	return in.To
}

// applyTo returns the regions with the schedules and pages of a variant.
func (s *scheduleSearch) applyTo(v variant) ([]jobs.Region, error) {
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

func listChanges(from, to []jobs.Region) []Change {
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

// explainMisfit returns the reason why no schedule fits: the call that does not
// fit even with the fewest ticks and pages.
func (s *scheduleSearch) explainMisfit() string {
	lightest, ok := s.thinnest(s.original)
	if !ok {
		return "no schedule was found that fits; lower pages or raise a limit in costs.yaml"
	}
	s.measure(lightest)
	for i, l := range s.loads {
		worst := l.findPeak(s.jitter)
		if worst.excess == 0 {
			continue
		}
		region, call := s.largestCall(i)
		b, first := l.budget, l.ticks.at[0]
		number := b.Measure.Number
		never := fmt.Sprintf("%s of %s (%s) never fits: ", call.Caller.Job, region.region, call.Method)
		held := l.held.sum(l.since(first), first)
		switch {
		case region.weights[i] > int64(b.Limit):
			return never +
				fmt.Sprintf("one pass with one page a step needs %s %s of %s, whose limit is %s; fetch less there, "+
					"or raise the limit",
					number(quota.Units(region.weights[i])), b.Measure, b.Name, number(b.Limit))
		case held > 0:
			return never + fmt.Sprintf("at %s %s still holds %s of %s %s from before; plan --from later, or --fresh",
				human.Time(fromMicros(first)), b.Name, number(quota.Units(held)), number(b.Limit), b.Measure)
		}
		floors := ""
		if worst.need > worst.used {
			floors = ", the floors of other regions included"
		}
		return never +
			fmt.Sprintf("even with the fewest ticks and one page a step, %s may need %s %s%s, and its limit is %s; "+
				"fetch in fewer regions, or raise the limit",
				b.Name, number(quota.Units(worst.need)), b.Measure, floors, number(b.Limit))
	}
	return "no schedule was found that fits; fetch in fewer regions, or raise a limit in costs.yaml"
}

// largestCall returns the region that charges a budget most, and the call of
// its step that charges it most for a page.
func (s *scheduleSearch) largestCall(budget int) (*regionDemand, quota.Call) {
	region := &s.demand.regions[0]
	for i := range s.demand.regions {
		if r := &s.demand.regions[i]; r.weights[budget] > region.weights[budget] {
			region = r
		}
	}
	var largest quota.Call
	most := int64(0)
	for i := range region.steps {
		for _, c := range region.steps[i].page {
			if amount := int64(c.most) * c.weights[budget]; amount > most {
				largest, most = c.Call, amount
			}
		}
	}
	return region, largest
}
