package plan

import (
	"cmp"
	"slices"
)

// trial is a variant that one step leads to.
type trial struct {
	variant
	measured
	rate float64 // how much less it does not fit, for each call that it loses
	left float64 // the part of its calls that the region keeps, or the poorest one
}

// nearly is the part of the best that is as good: fairness counts more than the rest.
const nearly = 0.8

// best returns the best of the variants that fit, and nil if there is none. Of
// those that keep nearly the most calls it is the one whose poorest region keeps
// the largest part of its calls; of equals the one with more calls, and then
// the one with fewer changes.
func (s *search) best(tried []trial) variant {
	if len(tried) == 0 {
		return nil
	}
	most := slices.MaxFunc(tried, func(a, b trial) int { return cmp.Compare(a.calls, b.calls) }).calls
	tried = slices.DeleteFunc(tried, func(t trial) bool { return float64(t.calls) < nearly*float64(most) })
	return slices.MaxFunc(tried, func(a, b trial) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.calls, b.calls), cmp.Compare(s.changed(b.variant), s.changed(a.variant)))
	}).variant
}

// poorest returns the part of its calls that is left to the region that keeps
// least, in the variant that was measured last.
func (s *search) poorest() float64 {
	least := 1.0
	for i := range s.original {
		if len(s.ticks(i, s.original[i].spec)) > 0 {
			least = min(least, s.left(i))
		}
	}
	return least
}

// left returns the part of its calls that a region keeps in the variant that
// was measured last.
func (s *search) left(region int) float64 {
	pass := &s.demand.passes[region]
	was := 0
	for _, pages := range s.original[region].pages {
		was += pages
	}
	was *= len(s.ticks(region, s.original[region].spec))
	return float64(len(pass.ticks)*pass.calls) / float64(max(1, was))
}

// changed returns in how many places a variant is not the original.
func (s *search) changed(v variant) (n int) {
	for i := range v {
		if v[i].spec != s.original[i].spec {
			n++
		}
		for j := range v[i].pages {
			if v[i].pages[j] != s.original[i].pages[j] {
				n++
			}
		}
	}
	return n
}
