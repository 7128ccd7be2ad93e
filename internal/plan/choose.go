package plan

import (
	"cmp"
	"slices"
)

// candidate is a variant to choose from.
type candidate struct {
	variant
	score
	gain  float64 // by how much the excess falls for each call lost
	share float64 // the share of its calls that the changed region keeps, or the poorest one
}

// goodEnough is the part of the best that is considered as good, so that
// fairness decides.
const goodEnough = 0.8

// chooseBest returns the best of the variants that fit, or nil if there is
// none. Of those that keep good enough a number of calls, it is the one whose
// poorest region keeps the largest share; then the one with the most calls,
// then the one with the fewest changes.
func (s *scheduleSearch) chooseBest(tried []candidate) variant {
	if len(tried) == 0 {
		return nil
	}
	most := slices.MaxFunc(tried, func(a, b candidate) int { return cmp.Compare(a.calls, b.calls) }).calls
	tried = slices.DeleteFunc(tried, func(t candidate) bool { return float64(t.calls) < goodEnough*float64(most) })
	return slices.MaxFunc(tried, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.calls, b.calls),
			cmp.Compare(s.countChanges(b.variant), s.countChanges(a.variant)))
	}).variant
}

// poorestShare returns the smallest share of its calls that any region keeps in
// the variant that was measured last.
func (s *scheduleSearch) poorestShare() float64 {
	least := 1.0
	for i := range s.original {
		if len(s.ticksOf(i, s.original[i].spec)) > 0 {
			least = min(least, s.shareKept(i))
		}
	}
	return least
}

// shareKept returns the share of its calls that a region keeps in the variant
// that was measured last.
func (s *scheduleSearch) shareKept(region int) float64 {
	r := &s.demand.regions[region]
	original := 0
	for j, pages := range s.original[region].pages {
		original += pages * r.steps[j].calls
	}
	original *= len(s.ticksOf(region, s.original[region].spec))
	if original == 0 {
		return 1
	}
	return float64(len(r.ticks)*r.calls) / float64(original)
}

// countChanges returns in how many places a variant differs from the original.
func (s *scheduleSearch) countChanges(v variant) (n int) {
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
