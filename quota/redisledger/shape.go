package redisledger

import (
	"slices"

	"github.com/ration-dev/ration/quota"
)

// shape is the part of a request's encoding that does not depend on its units.
type shape struct {
	*labelled
	feeds   []int
	charges []*quota.Charge
	demands [][]demand      // of each charge: that of its own coverage, then those of its floors
	items   [][]int         // the indexes of the items that serve them
	held    []*quota.Charge // the charges that hold in place of charges, see limits
	round   int             // the scope's round when the demands were last recorded and the limits asked
}

// shapeKey is the key of a shape in its scope. First is the address of the
// first element of the caller's list of charges, which stays valid while the
// shape is cached.
type shapeKey struct {
	label
	first **quota.Charge
	n     int
}

// maxShapes is the most shapes that a scope caches.
const maxShapes = 4096

// shape returns the shape of a request, or nil if the cache lacks a part of it.
func (a *accountCache) shape(scope int, r *quota.Request) *shape {
	of := &a.scopes[scope]
	key := shapeKey{label: label{r.Method, r.Caller}, n: len(r.Charges)}
	if key.n > 0 {
		key.first = &r.Charges[0]
	}
	s := of.shapes[key]
	if s == nil || !slices.Equal(s.charges, r.Charges) {
		if s = a.newShape(scope, key.label, r.Charges); s == nil {
			return nil
		}
		if len(of.shapes) >= maxShapes {
			clear(of.shapes)
		}
		of.shapes[key] = s
	}
	if s.round != of.round {
		if !a.limits.asks(r.Charges) {
			return nil
		}
		s.round, s.held = of.round, a.limits.chargesInForce(s.charges)
		for _, asks := range s.demands {
			for _, q := range asks {
				of.recordUse(q)
			}
		}
	}
	return s
}

func (a *accountCache) newShape(scope int, l label, charges []*quota.Charge) *shape {
	known := a.labels[l]
	if known == nil {
		return nil
	}
	s := &shape{labelled: known, charges: slices.Clone(charges), demands: make([][]demand, len(charges)), items: make([][]int, len(charges))}
	for i, c := range charges {
		s.demands[i] = demandsOf(c)
		for _, q := range s.demands[i] {
			item := a.scopes[scope].find(q)
			if item < 0 {
				return nil
			}
			s.items[i] = append(s.items[i], item)
		}
	}
	s.feeds = a.feeds(scope, l)
	return s
}
