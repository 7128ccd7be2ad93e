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
func (s *runShare) take(ctx context.Context, g *Guard, call *Call, set *chargeSet, count int) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	amounts := call.Amounts().Times(count)
	for i, charge := range set.charges {
		t, err := s.of(ctx, g, set, i, call.Key)
		if err != nil {
			return nil // the ledger decides by itself, and an allowance is bounded
		}
		needed := amounts.Of(charge.Coverage.Measure)
		if t == nil || t.units+needed <= t.most {
			continue
		}
		if err := g.Probe(ctx, *call); errors.Is(err, ErrRefused) {
			return err
		}
		refused := newRefusal(call, charge.Budget, ReasonShare)
		refused.Measure, refused.Needed = charge.Coverage.Measure, needed
		refused.Limit, refused.Remaining = charge.limitOf(call.Key), max(0, t.most-t.units)
		refused.Detail = fmt.Sprintf("%g%%, %s", s.part*100, charge.Coverage.Measure.Text(t.most))
		refused.RetryAfter, refused.RetryAt = shareRetry, time.Now().Add(shareRetry).UTC()
		return refused
	}
	s.add(set, call.Key, amounts, 1)
	return nil
}

// of returns what was taken of a budget, or nil if that is not shared.
func (s *runShare) of(ctx context.Context, g *Guard, set *chargeSet, i int, key string) (*shareTaken, error) {
	charge := set.charges[i]
	isShort := charge.Horizon() < shortestShared || charge.Window.Lease() > 0
	if isShort {
		return nil, nil
	}
	of := sharedBudgetOf(set, i, key)
	if t := s.taken[of]; t != nil {
		return t, nil
	}
	states, err := g.states(ctx, set.class.account, of.key, []*Charge{charge})
	if err != nil {
		return nil, err
	}
	left := charge.limitOf(of.key) - states[0].Used
	for _, floor := range states[0].floors {
		left -= floor.Kept
	}
	t := &shareTaken{most: Units(float64(max(0, left))*s.part + 1e-6)}
	s.taken[of] = t
	return t, nil
}

func sharedBudgetOf(set *chargeSet, i int, key string) sharedBudget {
	if !set.charges[i].Coverage.PerKey {
		key = ""
	}
	return sharedBudget{set.budgets[i], key}
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
	for i, charge := range set.charges {
		if t := s.taken[sharedBudgetOf(set, i, key)]; t != nil {
			t.units = max(0, t.units+sign*amounts.Of(charge.Coverage.Measure))
		}
	}
}
