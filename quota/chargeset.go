package quota

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// callClass is what decides which budgets cover a call.
type callClass struct{ account, method, lane, region string }

// chargeSet is what the calls of one class are charged to.
type chargeSet struct {
	class   callClass
	charges []*charge
	budgets []int            // the index of each charge's budget in Guard.budgets
	engine  []*engine.Budget // the charges as the engine sees them
	history time.Duration
	lease   time.Duration // the longest of those of budgets in flight
	refused refusalSlots  // for calls without a Key
}

// chargeSets holds the charge sets in use.
type chargeSets struct {
	latest  atomic.Pointer[chargeSet]                // most calls are like the one before
	byClass atomic.Pointer[map[callClass]*chargeSet] // replaced as a whole, never modified

	mu     sync.Mutex
	recent map[callClass]*chargeSet // not in byClass yet
	misses int                      // calls that did not find their class in byClass, since it was replaced
}

// isCharged reports whether a call is charged to the budget.
func (b *chargedBudget) isCharged(call *Call) bool {
	return !b.Shadow && b.coverage.Covers(call.Method, call.Caller.Lane, call.Caller.Region)
}

// maxChargeSets bounds the charge sets that are kept, which are at most twice
// as many, since methods and regions may come from untrusted input.
const maxChargeSets = 1024

// chargesFor returns what call is charged to.
func (g *Guard) chargesFor(call *Call) *chargeSet {
	class := callClass{call.Account, call.Method, call.Caller.Lane, call.Caller.Region}
	if latest := g.chargeSets.latest.Load(); latest != nil && latest.class == class {
		return latest
	}
	if known := (*g.chargeSets.byClass.Load())[class]; known != nil {
		g.chargeSets.latest.Store(known)
		return known
	}
	return g.chargeSets.add(class, func() *chargeSet {
		set := &chargeSet{class: class, history: g.history[call.Account]}
		for _, b := range g.accounts[call.Account] {
			if b.isCharged(call) {
				c := b.chargeFor(call.Caller.Region)
				set.charges = append(set.charges, c)
				set.budgets, set.engine = append(set.budgets, c.index), append(set.engine, c.engine)
				set.lease = max(set.lease, c.Window.Lease())
			}
		}
		return set
	})
}

// add returns the set of a class that was not in byClass. It replaces byClass
// only after as many calls as that has classes, so that copying it costs each
// of them little.
func (s *chargeSets) add(class callClass, newSet func() *chargeSet) *chargeSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := *s.byClass.Load()
	if set := known[class]; set != nil {
		return set // another call has just added it
	}
	set := s.recent[class]
	if set == nil {
		set = newSet()
		if s.recent == nil {
			s.recent = map[callClass]*chargeSet{}
		}
		s.recent[class] = set
	}
	if s.misses++; s.misses > len(known) {
		if len(known)+len(s.recent) <= maxChargeSets {
			maps.Copy(s.recent, known)
		}
		s.byClass.Store(new(s.recent))
		s.recent, s.misses = nil, 0
	}
	return set
}
