package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ration-dev/ration/jobs"
)

// variant is a schedule to try: a choice for each region.
type variant []choice

// choice is a region's schedule and the number of pages of each step.
type choice struct {
	spec  string
	pages []int
}

// with returns a copy of v with another choice for one region.
func (v variant) with(region int, c choice) variant {
	other := slices.Clone(v)
	other[region] = c
	return other
}

// scheduleSearch looks for a variant that fits.
type scheduleSearch struct {
	ctx           context.Context
	in            *Input
	jitter        int64
	demand        *demand // of the variant that was measured last
	loads         []*load // by budget
	original      variant
	originalScore score
	ticksBySpec   map[string][]int64
}

func newSearch(ctx context.Context, in *Input) (*scheduleSearch, error) {
	d, err := newDemand(in)
	if err != nil {
		return nil, err
	}
	s := &scheduleSearch{ctx: ctx, in: in, jitter: in.Jitter.Microseconds(), demand: d,
		ticksBySpec: map[string][]int64{}}
	for i := range in.Budgets {
		s.loads = append(s.loads, in.newLoad(i))
	}
	for i := range in.Regions {
		region := &in.Regions[i]
		c := choice{spec: region.Schedule.String()}
		for j := range region.Steps {
			c.pages = append(c.pages, region.Steps[j].Pages)
		}
		s.original = append(s.original, c)
		s.ticksBySpec[c.spec] = d.regions[i].ticks
	}
	return s, nil
}

// score says how good a variant is.
type score struct {
	excess float64 // 0 if it fits; see peak.excess
	calls  int     // calls that it requests
}

// measure returns the score of a variant, by the same rules as Play. The excess
// is infinite if a region loses all its ticks.
func (s *scheduleSearch) measure(v variant) score {
	m := score{}
	for i := range v {
		r := &s.demand.regions[i]
		r.ticks, r.calls = s.ticksOf(i, v[i].spec), 0
		if len(r.ticks) == 0 && len(s.ticksOf(i, s.original[i].spec)) > 0 {
			return score{excess: math.Inf(1)}
		}
		clear(r.weights)
		for j, pages := range v[i].pages {
			r.calls += pages * r.steps[j].calls
			for k, amount := range r.steps[j].weights {
				r.weights[k] += int64(pages) * amount
			}
		}
		m.calls += len(r.ticks) * r.calls
	}
	s.demand.mergeTicks()
	for k, l := range s.loads {
		l.setTicks(s.demand, k, false)
		m.excess += l.findPeak(s.jitter).excess
	}
	return m
}

// ticksOf returns the ticks of a schedule. Variants have no more ticks than the
// original, so they are not too many.
func (s *scheduleSearch) ticksOf(region int, spec string) []int64 {
	ticks, known := s.ticksBySpec[spec]
	if !known {
		if schedule, err := jobs.ParseSchedule(spec, s.in.Regions[region].Schedule.Zone()); err == nil {
			ticks, _ = s.demand.listTicks(schedule, MaxCalls)
		}
		s.ticksBySpec[spec] = ticks
	}
	return ticks
}

// findBest returns the best variant that fits, or nil if none was found or the
// original fits.
func (s *scheduleSearch) findBest() (variant, error) {
	s.originalScore = s.measure(s.original)
	if s.originalScore.excess == 0 {
		return nil, nil
	}
	moved, excess, err := s.shiftMinutes(s.originalScore.excess)
	if err != nil {
		return nil, err
	}
	starts := []variant{s.thinAll(), s.original}
	switch {
	case excess == 0:
		starts = []variant{moved}
	case excess < s.originalScore.excess:
		starts = append(starts, moved)
	}
	var tried []candidate
	for _, start := range starts {
		v, err := s.lighten(start)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if v, err = s.revertNeedless(v); err != nil {
			return nil, err
		}
		tried = append(tried, candidate{variant: v, score: s.measure(v), share: s.poorestShare()})
	}
	return s.chooseBest(tried), nil
}

// thinAll thins the schedules of all regions, one step at a time, and returns
// the first variant that fits, or the original.
func (s *scheduleSearch) thinAll() variant {
	for n, more := 0, true; more; n++ {
		v := slices.Clone(s.original)
		more = false
		for i := range v {
			if specs := lighterSpecs(v[i].spec); len(specs) > 0 {
				more = more || n < len(specs)
				v[i].spec = specs[min(n, len(specs)-1)]
			}
		}
		if s.measure(v).excess == 0 {
			return v
		}
	}
	return s.original
}

// shiftMinutes moves the minutes of each region's ticks, the last region first,
// to where they reduce the excess most. It returns the variant and its excess.
func (s *scheduleSearch) shiftMinutes(excess float64) (variant, float64, error) {
	v := s.original
	for range 2 {
		for i := len(v) - 1; i >= 0; i-- {
			best := v
			for _, spec := range shiftedSpecs(v[i].spec) {
				if err := s.ctx.Err(); err != nil {
					return nil, 0, fmt.Errorf("plan: suggest: %w", err)
				}
				other := v.with(i, choice{spec, v[i].pages})
				if m := s.measure(other); m.excess < excess {
					best, excess = other, m.excess
				}
			}
			if v = best; excess == 0 {
				return v, 0, nil
			}
		}
	}
	return v, excess, nil
}

// lighten reduces the ticks or pages of one region at a time until the variant
// fits. Of the choices whose gain is good enough, it takes the one that leaves
// its region the largest share of its calls, so that no region pays for all; of
// equal ones that of the last region.
func (s *scheduleSearch) lighten(v variant) (variant, error) {
	lightest, ok := s.thinnest(v)
	fits := s.measure(lightest).excess == 0
	if ok && !fits && !slices.ContainsFunc(v, usesDelay) {
		return nil, nil // every lighter variant has at least these ticks
	}
	now := s.measure(v)
	for now.excess > 0 {
		var tried []candidate
		best := 0.0
		for i := len(v) - 1; i >= 0; i-- {
			for _, c := range lighterChoices(v[i]) {
				if err := s.ctx.Err(); err != nil {
					return nil, fmt.Errorf("plan: suggest: %w", err)
				}
				t := candidate{variant: v.with(i, c)}
				t.score = s.measure(t.variant)
				t.gain = (now.excess - t.excess) / max(0.5, float64(now.calls-t.calls))
				t.share = s.shareKept(i)
				tried, best = append(tried, t), max(best, t.gain)
			}
		}
		if best == 0 && fits {
			return lightest, nil
		}
		if best == 0 {
			return nil, nil
		}
		tried = slices.DeleteFunc(tried, func(t candidate) bool { return t.gain < goodEnough*best })
		chosen := slices.MaxFunc(tried, func(a, b candidate) int { return cmp.Compare(a.share, b.share) })
		v, now = chosen.variant, chosen.score
	}
	return v, nil
}

// usesDelay reports whether a schedule is @every, whose ticks are counted
// from the epoch. The ticks of a longer delay are not a subset of those of
// a shorter.
func usesDelay(c choice) bool { return parseSpec(c.spec).every > 0 }

// lighterChoices returns the next choices to try: fewer ticks, or fewer pages
// of a step.
func lighterChoices(c choice) []choice {
	var all []choice
	specs := lighterSpecs(c.spec)
	for i, spec := range specs {
		if i < 2 || i == len(specs)-1 {
			all = append(all, choice{spec, c.pages})
		}
	}
	for j, pages := range c.pages {
		for _, fewer := range slices.Compact([]int{pages - 1, pages / 2, 1}) {
			if fewer >= 1 && fewer < pages {
				all = append(all, c.withPages(j, fewer))
			}
		}
	}
	return all
}

func (c choice) withPages(step, pages int) choice {
	other := slices.Clone(c.pages)
	other[step] = pages
	return choice{c.spec, other}
}

// revertNeedless reverts changes that are not needed, one at a time, the region
// that keeps the smallest share of its calls first.
func (s *scheduleSearch) revertNeedless(v variant) (variant, error) {
	for {
		s.measure(v)
		order, left := make([]int, len(v)), make([]float64, len(v))
		for i := range v {
			order[i], left[i] = i, s.shareKept(i)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
		better, err := s.revertOne(v, order)
		if err != nil || better == nil {
			return v, err
		}
		v = better
	}
}

// revertOne returns the first variant that reverts part of a region's changes
// and fits, or nil if there is none.
func (s *scheduleSearch) revertOne(v variant, order []int) (variant, error) {
	for _, i := range order {
		for _, c := range s.revertedChoices(i, v[i]) {
			if err := s.ctx.Err(); err != nil {
				return nil, fmt.Errorf("plan: suggest: %w", err)
			}
			if other := v.with(i, c); s.measure(other).excess == 0 {
				return other, nil
			}
		}
	}
	return nil, nil
}

// revertedChoices returns the choices of a region that change less than c: each
// change is reverted by one step, and completely.
func (s *scheduleSearch) revertedChoices(region int, c choice) []choice {
	var all []choice
	original := s.original[region]
	if c.spec != original.spec {
		specs := lighterSpecs(original.spec)
		slices.Reverse(specs)
		for _, spec := range append(specs, original.spec) {
			if spec == original.spec || len(s.ticksOf(region, spec)) > len(s.ticksOf(region, c.spec)) {
				all = append(all, choice{spec, c.pages})
			}
		}
	}
	for j, pages := range c.pages {
		for _, more := range slices.Compact([]int{pages + 1, original.pages[j]}) {
			if more > pages && more <= original.pages[j] {
				all = append(all, c.withPages(j, more))
			}
		}
	}
	return all
}

// thinnest returns v with the fewest ticks and pages that leave every region a
// tick. ok is false if a region has none even so.
func (s *scheduleSearch) thinnest(v variant) (thin variant, ok bool) {
	v = slices.Clone(v)
	for i := range v {
		for j := range v[i].pages {
			v[i] = v[i].withPages(j, 1)
		}
		specs := append([]string{v[i].spec}, lighterSpecs(v[i].spec)...)
		slices.Reverse(specs)
		for _, spec := range specs {
			if len(s.ticksOf(i, spec)) > 0 {
				v[i].spec = spec
				break
			}
		}
	}
	return v, !math.IsInf(s.measure(v).excess, 1)
}
