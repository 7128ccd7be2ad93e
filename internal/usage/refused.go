package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// MethodRefusal is a method of which a budget, or a cooldown of the account,
// has refused all calls since its last one was granted.
type MethodRefusal struct {
	Method string
	Budget string       // that refused it; empty for a cooldown of the account
	Key    string       // of the newest; all calls are of it if OfKey
	OfKey  bool         // the budget is one that each key has for itself
	Region string       // of the calls, if the budget has a floor for it; else empty
	Caller quota.Caller // of the newest
	Host   string       // that refused the first; empty if it has no name
	Since  time.Time
	Count  int64 // of refusals in the log, which has only some: see Guard.RecordRefusal
	IsOver bool  // a call was granted since
}

// refusals follows the refusals in the log of an account, and what ends them: a
// grant.
type refusals struct {
	budgets []*BudgetStatus // and nil, for cooldowns of the account
	found   map[refusedID]*MethodRefusal
}

func newRefusals(budgets []*BudgetStatus) *refusals {
	return &refusals{append([]*BudgetStatus{nil}, budgets...), map[refusedID]*MethodRefusal{}}
}

// refusedID tells apart what calls are refused. A grant to one key or region
// does not end the refusals of another one that has room of its own.
type refusedID struct{ method, budget, key, region string }

// idOf returns the id of a refusal by a budget, or by the account if b is nil,
// and reports whether b covers the call.
func idOf(b *BudgetStatus, e *quota.Entry) (id refusedID, ok bool) {
	id.method = e.Method
	if b == nil {
		return id, true
	}
	id.budget = b.Budget.Name
	if b.Budget.PerKey {
		id.key = e.Key
	}
	if b.Budget.Floor[e.Caller.Region] > 0 {
		id.region = e.Caller.Region
	}
	return id, b.Coverage.Covers(e.Method, e.Caller.Lane, e.Caller.Region)
}

// add adds an entry. Entries are added in the order of their timestamps.
func (all *refusals) add(e *quota.Entry) {
	if e.Kind == quota.EntryCall && len(all.found) > 0 {
		for _, b := range all.budgets {
			id, ok := idOf(b, e)
			if r := all.found[id]; ok && r != nil {
				r.IsOver = true
			}
		}
	}
	if e.Kind != quota.EntryRefused {
		return
	}
	i := slices.IndexFunc(all.budgets, func(b *BudgetStatus) bool {
		if b == nil {
			return e.Budget == ""
		}
		return b.Budget.Name == e.Budget
	})
	if i < 0 { // it is not configured any more
		return
	}
	b := all.budgets[i]
	id, ok := idOf(b, e)
	if !ok {
		return
	}
	r := all.found[id]
	if r == nil || r.IsOver {
		r = &MethodRefusal{Method: e.Method, Budget: e.Budget, OfKey: b != nil && b.Budget.PerKey, Region: id.region,
			Host: e.Host, Since: e.At}
		all.found[id] = r
	}
	r.Key, r.Caller = e.Key, e.Caller
	r.Count++
}

// sorted returns what was refused, the oldest first.
func (all *refusals) sorted() []*MethodRefusal {
	return slices.SortedFunc(maps.Values(all.found), func(a, b *MethodRefusal) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Key, b.Key))
	})
}
