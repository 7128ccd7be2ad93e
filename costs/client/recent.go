package client

import (
	"slices"
	"sync"

	"github.com/ration-dev/ration/quota"
)

// maxRecent is the most refusals that RecentRefusals returns.
const maxRecent = 20

// RecentRefusals returns the last refusals that this Client recorded, newest
// first: of those that are alike, with the same budget, method, caller and
// reason, only the newest.
func (c *Client) RecentRefusals() []*Refusal {
	recent := &c.refusals.recent
	recent.mu.Lock()
	all := slices.Clone(recent.all)
	recent.mu.Unlock()
	slices.Reverse(all)
	found := make([]*Refusal, len(all))
	for i, refused := range all {
		found[i] = c.newRefusal(refused)
	}
	return found
}

// recentRefusals are the last refusals that a Client recorded. It is safe for
// concurrent use.
type recentRefusals struct {
	mu  sync.Mutex
	all []*quota.RefusedError // oldest first
}

// refusalKey is what refusals have in common of which only the last is kept.
type refusalKey struct {
	account, budget, method, key string
	caller                       quota.Caller
	reason                       quota.Reason
}

func keyOf(r *quota.RefusedError) refusalKey {
	return refusalKey{r.Account, r.Budget, r.Method, r.Key, r.Caller, r.Reason}
}

func (r *recentRefusals) add(refused *quota.RefusedError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(old *quota.RefusedError) bool { return keyOf(old) == keyOf(refused) })
	if i < 0 && len(r.all) == maxRecent {
		i = 0
	}
	if i >= 0 {
		r.all = slices.Delete(r.all, i, i+1)
	}
	r.all = append(r.all, refused)
}

// newRefusal returns a refusal without secrets.
func (c *Client) newRefusal(refused *quota.RefusedError) *Refusal {
	shown := *refused
	if c.options.Redact != nil {
		shown.Detail = c.options.Redact(shown.Detail)
	}
	return newRefusal(&shown, c.name, c.options.Now)
}
