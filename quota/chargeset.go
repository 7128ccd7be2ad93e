package quota

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// callClass is what decides which budgets cover a call.
type callClass struct{ account, method, lane, region string }

// chargeSet is what the calls of one class are charged to.
type chargeSet struct {
	class   callClass
	charges []*Charge
	budgets []int // the index of each charge's budget in Guard.budgets
	history time.Duration
	refused refusalSlots // for calls without a Key
}

// chargeSets holds the charge sets in use.
type chargeSets struct {
	latest  atomic.Pointer[chargeSet]                // most calls are like the one before
	byClass atomic.Pointer[map[callClass]*chargeSet] // replaced as a whole, never modified
	mu      sync.Mutex                               // serializes replacing byClass
}

// isCharged reports whether a call is charged to the budget.
func (b *chargedBudget) isCharged(g *Guard, call *Call) bool {
	return !g.budgets[b.index].Shadow && b.charge.Coverage.Covers(call.Method, call.Caller)
}

// maxChargeSets bounds the charge sets that are kept, since methods and regions
// may come from untrusted input.
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
	g.chargeSets.mu.Lock()
	defer g.chargeSets.mu.Unlock()
	sets := *g.chargeSets.byClass.Load()
	if known := sets[class]; known != nil {
		return known
	}
	set := &chargeSet{class: class, history: g.history[call.Account]}
	for _, b := range g.accounts[call.Account] {
		if b.isCharged(g, call) {
			set.charges = append(set.charges, b.chargeFor(call.Caller.Region))
			set.budgets = append(set.budgets, b.index)
		}
	}
	replacement := map[callClass]*chargeSet{class: set}
	if len(sets) < maxChargeSets {
		maps.Copy(replacement, sets)
	}
	g.chargeSets.byClass.Store(&replacement)
	return set
}
