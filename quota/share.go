package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// runShare holds a Guard to a part of what was left of each budget when it
// first charged a call to it. Budgets of calls in flight, and those whose
// windows end while a run goes on, are not shared. nil bounds nothing.
type runShare struct {
	part float64

	mu    sync.Mutex
	taken map[sharedBudget]*shareTaken
}

// newRunShare returns what a part of 0 or less does not bound.
func newRunShare(part float64) *runShare {
	if part <= 0 {
		return nil
	}
	return &runShare{part: min(part, 1), taken: map[sharedBudget]*shareTaken{}}
}

type sharedBudget struct {
	index int    // in Guard.budgets
	key   string // of a budget per key
}

// shareTaken is what a run has taken of a budget, and the most that it may.
type shareTaken struct{ units, most Units }

const (
	// shortestShared is the shortest horizon of a budget that is shared.
	shortestShared = time.Hour
	// shareRetry is when to try again: by another run.
	shareRetry = time.Minute
)

// take takes the amounts of calls out of the share, or refuses them: as the
// budgets do, if those have no room for any run. The caller must give them back
// if they are not granted.
func (s *runShare) take(ctx context.Context, g *Guard, r *request) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	amounts := r.Amounts().Times(r.count)
	for _, charge := range r.set.charges {
		t, err := s.of(ctx, g, charge, r.Key)
		if err != nil {
			return nil // the ledger decides by itself, and an allowance is bounded
		}
		needed := amounts.Of(charge.Measure)
		if t == nil || t.units+needed <= t.most {
			continue
		}
		if err := g.Probe(ctx, r.Call); errors.Is(err, ErrRefused) {
			return err
		}
		refused := newRefusal(&r.Call, charge.Name, ReasonShare)
		refused.Measure, refused.Needed = charge.Measure, needed
		refused.Limit, refused.Remaining = charge.LimitOf(r.Key), max(0, t.most-t.units)
		refused.Detail = fmt.Sprintf("%g%%, %s", s.part*100, charge.Measure.Text(t.most))
		refused.RetryAfter, refused.RetryAt = shareRetry, time.Now().Add(shareRetry).UTC()
		return refused
	}
	s.add(r.set, r.Key, amounts, 1)
	return nil
}

// of returns what was taken of a budget, or nil if that is not shared.
func (s *runShare) of(ctx context.Context, g *Guard, charge *charge, key string) (*shareTaken, error) {
	isShort := charge.Horizon() < shortestShared || charge.Window.Lease() > 0
	if isShort {
		return nil, nil
	}
	of := sharedBudget{charge.index, charge.keyOf(key)}
	if t := s.taken[of]; t != nil {
		return t, nil
	}
	held, err := g.state(ctx, charge, of.key)
	if err != nil {
		return nil, err
	}
	left := charge.LimitOf(of.key) - Units(held.Used+held.Reserved)
	t := &shareTaken{most: Units(float64(max(0, left))*s.part + 1e-6)}
	s.taken[of] = t
	return t, nil
}

// change replaces what a grant has taken.
func (s *runShare) change(set *chargeSet, key string, before, after Amounts) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(set, key, before, -1)
	s.add(set, key, after, 1)
}

// add adds amounts, or takes them away if sign is -1.
func (s *runShare) add(set *chargeSet, key string, amounts Amounts, sign Units) {
	for _, charge := range set.charges {
		if t := s.taken[sharedBudget{charge.index, charge.keyOf(key)}]; t != nil {
			t.units = max(0, t.units+sign*amounts.Of(charge.Measure))
		}
	}
}
