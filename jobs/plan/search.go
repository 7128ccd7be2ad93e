package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ration-dev/ration/jobs"
)

// variant is a schedule that is tried: the choice for each region.
type variant []choice

type choice struct {
	spec  string
	pages []int // of each step
}

// with returns v with another choice for one region.
func (v variant) with(region int, c choice) variant {
	other := slices.Clone(v)
	other[region] = c
	return other
}

// search looks for a variant that fits.
type search struct {
	ctx       context.Context
	in        *Input
	late      int64
	demand    *demand // of the variant that was measured last
	questions []*question
	original  variant
	perPage   [][][]int64 // what a page counts for, by region, step and budget
	comes     map[string][]int64
	began     measured // of the original
}

func newSearch(ctx context.Context, in *Input) (*search, error) {
	d, err := newDemand(in)
	if err != nil {
		return nil, err
	}
	s := &search{ctx: ctx, in: in, late: in.Jitter.Microseconds(), demand: d, comes: map[string][]int64{}}
	for i := range in.Budgets {
		s.questions = append(s.questions, in.question(i))
	}
	for i := range in.Regions {
		region := &in.Regions[i]
		c := choice{spec: region.Schedule.String()}
		var pages [][]int64
		for j, step := range d.passes[i].steps {
			c.pages = append(c.pages, region.Steps[j].Pages)
			var amounts []int64
			for k := range in.Budgets {
				b, amount := &in.Budgets[k], int64(0)
				if coverage := b.Coverage(); b.Account == step.call.Account && coverage.Covers(step.call.Method, step.call.Caller) {
					amount = int64(coverage.Amount(step.call.Units))
				}
				amounts = append(amounts, amount)
			}
			pages = append(pages, amounts)
		}
		s.original, s.perPage = append(s.original, c), append(s.perPage, pages)
		s.comes[c.spec] = d.passes[i].ticks
	}
	return s, nil
}

// measured is how a variant does: by how much it does not fit (0: it does), and
// how many calls it asks for.
type measured struct {
	excess float64
	calls  int
}

// measure asks every budget, as Play does. A variant that leaves a region
// without any tick is no good at all.
func (s *search) measure(v variant) measured {
	m := measured{}
	for i := range v {
		pass := &s.demand.passes[i]
		pass.ticks, pass.calls = s.ticks(i, v[i].spec), 0
		if len(pass.ticks) == 0 && len(s.ticks(i, s.original[i].spec)) > 0 {
			return measured{excess: math.Inf(1)}
		}
		for k := range pass.weights {
			pass.weights[k] = 0
		}
		for j, pages := range v[i].pages {
			pass.calls += pages
			for k, amount := range s.perPage[i][j] {
				pass.weights[k] += int64(pages) * amount
			}
		}
		m.calls += len(pass.ticks) * pass.calls
	}
	s.demand.merge()
	for k, q := range s.questions {
		q.fill(s.demand, k, false)
		m.excess += q.ask(s.late).excess
	}
	return m
}

// ticks returns when a schedule comes. What is tried comes no more often than what was planned.
func (s *search) ticks(region int, spec string) []int64 {
	ticks, known := s.comes[spec]
	if !known {
		if schedule, err := jobs.ParseSchedule(spec, s.in.Regions[region].Schedule.Zone()); err == nil {
			ticks, _ = s.demand.comes(schedule, MaxCalls)
		}
		s.comes[spec] = ticks
	}
	return ticks
}

// find returns the best of the variants that fit, and nil when none was found.
func (s *search) find() (variant, error) {
	s.began = s.measure(s.original)
	if s.began.excess == 0 {
		return nil, nil
	}
	moved, excess, err := s.shift(s.began.excess)
	if err != nil {
		return nil, err
	}
	starts := []variant{s.together(), s.original}
	switch {
	case excess == 0:
		starts = []variant{moved}
	case excess < s.began.excess:
		starts = append(starts, moved)
	}
	var tried []trial
	for _, start := range starts {
		v, err := s.lighten(start)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if v, err = s.restore(v); err != nil {
			return nil, err
		}
		tried = append(tried, trial{variant: v, measured: s.measure(v), left: s.poorest()})
	}
	return s.best(tried), nil
}

// together returns the variant in which all regions come less often, by as
// many steps each, that is the first to fit; if none does, it is the original.
func (s *search) together() variant {
	for n, more := 0, true; more; n++ {
		v := slices.Clone(s.original)
		more = false
		for i := range v {
			if specs := lighter(v[i].spec); len(specs) > 0 {
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

// shift moves the minutes of one region after the other to where they help
// most, those that stand later in the file first.
func (s *search) shift(excess float64) (variant, float64, error) {
	v := s.original
	for range 2 {
		for i := len(v) - 1; i >= 0; i-- {
			best := v
			for _, spec := range shifted(v[i].spec) {
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

// lighten takes, as long as v does not fit, a step that helps much for each
// call that it loses: of those that help nearly as much as the best, the one that leaves its
// region the largest part of its calls, of equals the region that stands later
// in the file. So no region pays for all.
func (s *search) lighten(v variant) (variant, error) {
	lightest, ok := s.lightest(v)
	fits := s.measure(lightest).excess == 0
	if ok && !fits && !slices.ContainsFunc(v, counted) {
		return nil, nil // what is tried has at least these ticks
	}
	now := s.measure(v)
	for now.excess > 0 {
		var tried []trial
		best := 0.0
		for i := len(v) - 1; i >= 0; i-- {
			for _, c := range steps(v[i]) {
				if err := s.ctx.Err(); err != nil {
					return nil, fmt.Errorf("plan: suggest: %w", err)
				}
				t := trial{variant: v.with(i, c)}
				t.measured = s.measure(t.variant)
				t.rate = (now.excess - t.excess) / max(0.5, float64(now.calls-t.calls))
				t.left = s.left(i)
				tried, best = append(tried, t), max(best, t.rate)
			}
		}
		if best == 0 && fits {
			return lightest, nil
		}
		if best == 0 {
			return nil, nil
		}
		tried = slices.DeleteFunc(tried, func(t trial) bool { return t.rate < nearly*best })
		chosen := slices.MaxFunc(tried, func(a, b trial) int { return cmp.Compare(a.left, b.left) })
		v, now = chosen.variant, chosen.measured
	}
	return v, nil
}

// counted reports whether a region's ticks are counted from the epoch. Those of a
// longer period are then not among those of a shorter one.
func counted(c choice) bool { return read(c.spec).every > 0 }

// steps returns what a region may be told next: to come less often, or to
// fetch fewer pages of a step.
func steps(c choice) []choice {
	var all []choice
	specs := lighter(c.spec)
	for i, spec := range specs {
		if i < 2 || i == len(specs)-1 {
			all = append(all, choice{spec, c.pages})
		}
	}
	for j, pages := range c.pages {
		for _, fewer := range slices.Compact([]int{pages - 1, pages / 2, 1}) {
			if fewer >= 1 && fewer < pages {
				all = append(all, c.paged(j, fewer))
			}
		}
	}
	return all
}

func (c choice) paged(step, pages int) choice {
	other := slices.Clone(c.pages)
	other[step] = pages
	return choice{c.spec, other}
}

// restore takes back what v need not change, a step at a time, first of the
// region that has the smallest part of its calls left.
func (s *search) restore(v variant) (variant, error) {
	for {
		s.measure(v)
		order, left := make([]int, len(v)), make([]float64, len(v))
		for i := range v {
			order[i], left[i] = i, s.left(i)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
		better, err := s.lessChanged(v, order)
		if err != nil || better == nil {
			return v, err
		}
		v = better
	}
}

// lessChanged returns the first variant that takes back some of a region's
// changes and fits, and nil when there is none.
func (s *search) lessChanged(v variant, order []int) (variant, error) {
	for _, i := range order {
		for _, c := range s.back(i, v[i]) {
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

// back returns the choices of a region that change less than c: of each place
// a step back, and then all of it.
func (s *search) back(region int, c choice) []choice {
	var all []choice
	original := s.original[region]
	if c.spec != original.spec {
		specs := lighter(original.spec)
		slices.Reverse(specs)
		for _, spec := range append(specs, original.spec) {
			if spec == original.spec || len(s.ticks(region, spec)) > len(s.ticks(region, c.spec)) {
				all = append(all, choice{spec, c.pages})
			}
		}
	}
	for j, pages := range c.pages {
		for _, more := range slices.Compact([]int{pages + 1, original.pages[j]}) {
			if more > pages && more <= original.pages[j] {
				all = append(all, c.paged(j, more))
			}
		}
	}
	return all
}

// lightest returns what v comes to with the fewest ticks and pages that leave
// every region a tick.
func (s *search) lightest(v variant) (variant, bool) {
	v = slices.Clone(v)
	for i := range v {
		for j := range v[i].pages {
			v[i] = v[i].paged(j, 1)
		}
		specs := append([]string{v[i].spec}, lighter(v[i].spec)...)
		slices.Reverse(specs)
		for _, spec := range specs {
			if len(s.ticks(i, spec)) > 0 {
				v[i].spec = spec
				break
			}
		}
	}
	return v, !math.IsInf(s.measure(v).excess, 1)
}
