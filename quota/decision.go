package quota

import (
	"time"
)

// Decision is what a Guard answered to calls that are alike: see Guard.Observe.
type Decision struct {
	Call     Call          // with the caller that the context named
	Count    int           // how many such calls were decided together, at least 1
	Budgets  []int         // indexes in Guard.Budgets of those that cover the call; read-only
	Recorded bool          // the call had been sent and was recorded whatever the budgets said
	MayWait  bool          // the caller allowed the call to wait
	Waited   time.Duration // until the decision; 0 unless MayWait
	Err      error         // nil if the calls were granted
}

// Observe makes the guard call f with each decision of Spend, Wait,
// SpendTogether and of Transports, before they return it. Notes, probes and the
// guard's own entries are not decisions. f must be quick and safe for
// concurrent use. Several functions may observe one guard.
func (g *Guard) Observe(f func(Decision)) {
	for {
		before := g.observer.Load()
		all := f
		if before != nil {
			all = func(d Decision) { (*before)(d); f(d) }
		}
		if g.observer.CompareAndSwap(before, &all) {
			return
		}
	}
}

// Budgets returns the budgets that were passed to NewGuard, in their order.
func (g *Guard) Budgets() []Budget { return append([]Budget(nil), g.budgets...) }

// decided tells the observers what was decided about a call. began is when a
// call that may wait began to, and zero for others.
func (g *Guard) decided(r *request, began time.Time, err error) {
	observe := g.observer.Load()
	if observe == nil {
		return
	}
	d := Decision{Call: r.Call, Count: r.count, Budgets: r.set.budgets, Recorded: r.force, Err: err}
	if d.MayWait = !began.IsZero(); d.MayWait {
		d.Waited = time.Since(began)
	}
	(*observe)(d)
}
