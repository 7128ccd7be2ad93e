package web

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/quota"
)

// refusalKey identifies a refusal.
type refusalKey struct {
	at                      time.Time
	account, method, region string
}

func keyOf(r *client.Refusal) refusalKey { return refusalKey{r.At, r.Account, r.Method, r.Region} }

// refusalID is what equal refusals have in common.
type refusalID struct{ account, budget, method string }

// refusalGroup is equal refusals.
type refusalGroup struct {
	Account, Budget, Method string
	Count                   int // that are known: of the log, or of this process if it has more
	Since, Last             time.Time
	Why                     *report.Why // of the last one of this process; nil without one
	hosts, regions, jobs    map[string]bool
	own                     []*client.Refusal // newest first
}

func newRefusalGroup(id refusalID, since time.Time) *refusalGroup {
	return &refusalGroup{Account: id.account, Budget: id.budget, Method: id.method, Since: since,
		hosts: map[string]bool{}, regions: map[string]bool{}, jobs: map[string]bool{}}
}

// ID names the group in the page.
func (g *refusalGroup) ID() string {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%q", []string{g.Account, g.Budget, g.Method})
	return fmt.Sprintf("refused-%x", hash.Sum32())
}

// Hosts, Regions and Jobs return the first names, sorted.
func (g *refusalGroup) Hosts() string   { return firstNames(g.hosts) }
func (g *refusalGroup) Regions() string { return firstNames(g.regions) }
func (g *refusalGroup) Jobs() string    { return firstNames(g.jobs) }

// Region returns the region of the calls if it is one, and "" otherwise.
func (g *refusalGroup) Region() string {
	if len(g.regions) == 1 {
		return g.Regions()
	}
	return ""
}

// addRefusal adds a refusal of the log to those that are equal.
func (a *activity) addRefusal(account string, e *quota.Entry) {
	id := refusalID{account, e.Budget, e.Method}
	g := a.refusals[id]
	if g == nil {
		g = newRefusalGroup(id, e.At)
		a.refusals[id] = g
	}
	g.Count++
	g.Last = e.At
	g.hosts[e.Host] = true
	g.regions[e.Caller.Region], g.jobs[e.Caller.Job] = true, true
}

// ownRefusals returns the last refusals that are known here, newest first:
// those of this process, and the last one that any process with this state
// folder recorded.
func (r *reader) ownRefusals() []*client.Refusal {
	found := r.client.RecentRefusals()
	if r.client.State() != "" {
		last, err := client.LastRefusal(r.client.State())
		isKnown := func(known *client.Refusal) bool { return !known.At.Before(last.At) && idOf(known) == idOf(last) }
		if err == nil && last != nil && !slices.ContainsFunc(found, isKnown) {
			found = append(found, last)
		}
	}
	for _, one := range found {
		one.Message = r.options.Redact(one.Message)
	}
	slices.SortStableFunc(found, func(x, y *client.Refusal) int { return y.At.Compare(x.At) })
	return found
}

func idOf(r *client.Refusal) refusalID { return refusalID{r.Account, human.Given(r.Budget), r.Method} }

// readRefusals adds the refusals of all hosts that the log has, and those that
// are known here alone. Of each group, the last one of this process is
// explained.
func (r *reader) readRefusals(ctx context.Context, s *snapshot) {
	groups := map[refusalID]*refusalGroup{}
	for _, account := range s.Accounts {
		maps.Copy(groups, account.activity.refusals)
	}
	explained := r.explained
	r.explained = map[refusalKey]*report.Why{}
	for _, own := range r.ownRefusals() {
		g := groups[idOf(own)]
		if g == nil {
			g = newRefusalGroup(idOf(own), own.At)
			groups[idOf(own)] = g
		}
		if g.Why == nil {
			g.Why = r.explain(ctx, own, explained, s)
		}
		g.own = append(g.own, own)
		g.Count = max(g.Count, len(g.own))
		if own.At.Before(g.Since) {
			g.Since = own.At
		}
		if own.At.After(g.Last) {
			g.Last = own.At
		}
		g.regions[own.Region], g.jobs[own.Job] = true, true
	}
	s.Refusals = slices.SortedFunc(maps.Values(groups), func(x, y *refusalGroup) int {
		return cmp.Or(y.Last.Compare(x.Last), cmp.Compare(x.ID(), y.ID()))
	})
	s.Refusals = s.Refusals[:min(len(s.Refusals), shownRefusals)]
}

const shownRefusals = 20

// explain asks the ledger about a refusal that it has not explained yet.
func (r *reader) explain(ctx context.Context, refusal *client.Refusal, explained map[refusalKey]*report.Why,
	s *snapshot) *report.Why {
	key := keyOf(refusal)
	e := explained[key]
	if e == nil {
		e = report.NewWhy(refusal, s.At)
		if s.Err != nil || e.ReadLedger(ctx, r.client) != nil {
			return e // it says what is known without the ledger
		}
	}
	r.explained[key] = e
	return e
}
