package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// MethodRefusal is a method of which a budget, or a cooldown of the account,
// has refused all calls since its last one was granted.
type MethodRefusal struct {
	Method string
	Key    string       // of calls of a budget that each key has for itself
	Caller quota.Caller // of the newest
	Host   string       // that refused the first; empty if it has no name
	Since  time.Time
	Last   time.Time
	Count  int64 // of refusals in the log, which has the first of each hour, process and budget
	OfAll  bool  // by a cooldown of the account
}

// refusedID tells apart what calls are refused.
type refusedID struct{ method, key string }

// addRefusal follows the refusals of a budget and what ends them: a grant.
func (s *scan) addRefusal(e *quota.Entry) {
	id := refusedID{method: e.Method}
	if s.Budget.PerKey {
		id.key = e.Key
	}
	isCovered := s.Coverage.Covers(e.Method, e.Caller)
	switch {
	case e.Kind == quota.EntryCall && isCovered:
		delete(s.refused, id)
	case e.Kind != quota.EntryRefused || !isCovered:
	case e.Budget == s.Budget.Name || e.Budget == "":
		r := s.refused[id]
		if r == nil {
			r = &MethodRefusal{Method: e.Method, Key: id.key, Host: e.Host, Since: e.At}
			s.refused[id] = r
		}
		r.Caller, r.Last = e.Caller, e.At
		r.OfAll = e.Budget == ""
		r.Count++
	}
}

// refusals returns what is refused, the oldest first.
func (s *scan) refusals() []MethodRefusal {
	var all []MethodRefusal
	for _, r := range s.refused {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b MethodRefusal) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Key, b.Key))
	})
	return all
}
