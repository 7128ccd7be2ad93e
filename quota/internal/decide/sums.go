package decide

import (
	"iter"

	"github.com/ration-dev/ration/quota"
)

// Sums adds up partial sums by group. The zero Sums is empty.
type Sums struct{ groups map[group]*quota.Sum }

// group identifies the entries of one sum.
type group struct {
	kind   quota.EntryKind
	method string
	caller quota.Caller
}

// Add adds part to the sum of its group.
func (s *Sums) Add(part *quota.Sum) {
	in := group{part.Kind, part.Method, part.Caller}
	sum := s.groups[in]
	if sum == nil {
		if s.groups == nil {
			s.groups = map[group]*quota.Sum{}
		}
		s.groups[in] = new(*part)
		return
	}
	sum.Entries += part.Entries
	sum.Units += part.Units
	sum.Calls += part.Calls
	if part.First.Before(sum.First) {
		sum.First = part.First
	}
	if part.Last.After(sum.Last) {
		sum.Last = part.Last
	}
}

// Yield yields every sum until yield returns false.
func (s *Sums) Yield(yield func(quota.Sum, error) bool) {
	for _, sum := range s.groups {
		if !yield(*sum, nil) {
			return
		}
	}
}

// SumEntries implements quota.Ledger's Sums by adding up its Entries.
func SumEntries(entries iter.Seq2[quota.Entry, error]) iter.Seq2[quota.Sum, error] {
	return func(yield func(quota.Sum, error) bool) {
		var sums Sums
		for e, err := range entries {
			if err != nil {
				yield(quota.Sum{}, err)
				return
			}
			part := quota.Sum{Kind: e.Kind, Method: e.Method, Caller: e.Caller, Entries: 1, Units: e.Units, Calls: e.Calls, First: e.At, Last: e.At}
			sums.Add(&part)
		}
		sums.Yield(yield)
	}
}
