// Package costs prices requests. It reads costs.yaml, which has the costs of an
// upstream's methods and the budgets, and maps a request to the call that a
// quota.Guard charges.
//
// Package costs/client opens the ledger and the guard that a costs.yaml names,
// with all that it says besides prices and budgets. A program that needs only
// these two, such as a test, has them from Load:
//
//	table, err := costs.Load("costs.yaml")
//	guard, err := quota.NewGuard(ledger, table.Budgets(), nil)
//	web := &http.Client{Transport: &quota.Transport{Guard: guard, Price: table.Price}}
//
// Verbs and paths come from the upstream's discovery document, or from routes
// in the file. A request to a guarded host is refused if it is not clearly one
// of the known methods, and so is a request to another host of a guarded domain
// that is not listed as unguarded. Requests to all other hosts are sent
// without a charge.
package costs

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// Table is a parsed and checked costs.yaml. It is immutable and safe for
// concurrent use.
type Table struct {
	path        string
	ledger      string
	ledgerPlace string
	upstreams   []*Upstream
	sites       map[string]*site   // by canonical host
	domains     map[string]*domain // by name
	unguarded   map[string]bool    // hosts in these domains whose requests are sent without a charge
}

// LongestWindow returns how far back the longest window of all budgets sees.
func (t *Table) LongestWindow() (longest time.Duration) {
	for _, b := range t.Budgets() {
		longest = max(longest, b.Horizon())
	}
	return longest
}

// Upstream is one document of costs.yaml. Do not modify its slices and maps.
type Upstream struct {
	Name    string
	Account string
	API     string   // such as youtube/v3; if empty, Routes price requests
	Hosts   []string // in lower case
	// requests to other hosts of theirs are refused; with an API, only those that it could serve
	Domains   []string
	Insecure  []string        // hosts to which a gateway may send plain http
	Unguarded []string        // hosts of Domains with a quota of their own
	Key       KeyPlace        // where requests have their calls' key
	Routes    []Route         // the more exact first; without routes and API, only methods given by name have a price
	Resets    *time.Location  // the zone at whose midnight the upstream's own day ends; nil if unknown
	Unlisted  quota.Units     // the cost of a method that Costs does not list; 0 refuses it
	Measures  []quota.Measure // that calls cost beside units and calls
	Costs     []MethodCost    // sorted by method
	Batches   []BatchMethod   // methods whose requests hold several calls, sorted
	Budgets   []quota.Budget  // in the order of the file, a preset's first
	Answers   []feedback.Rule // the rules that read the upstream's answers before those of the dialect
	Feedback  string          // the dialect of package quota/feedback that reads answers: google, generic, …

	// ResetWindow is the upstream's own day or month, with its time of day and
	// margin, from resets in the file. Its Kind is 0 without resets.
	ResetWindow quota.Window
	ResetMargin time.Duration // of all calendar windows of this document

	Preset  *Preset // provides the lines that the file does not override; nil without a preset
	Variant string  // of the preset; may be empty

	Credential *Credential // added by package gateway to requests to Hosts; may be nil

	NotModifiedUnits *quota.Units // see NotModified; nil means the full cost

	// the least time that the ledger keeps the account's entries; 0 means as long as a window needs
	// them
	History time.Duration

	Alert *Alert // may be nil

	Priorities map[string]int  // of lanes; 0 for others
	Paced      map[string]bool // the lanes whose calls are spread over what is left of the windows

	Down []DownRule // the first that covers a call decides; without one, the call is refused

	// UpstreamLimits are the limits of the upstream itself, by budget: those
	// that the file gives as upstream_limit, and otherwise the preset's limits.
	UpstreamLimits map[string]quota.Units

	site    *site
	origins map[string]Origin
}

// Route maps requests of a form to a method.
type Route struct {
	Pattern string // as costs.yaml writes it: GET /v1/{path...}
	When    string // which field of the request leads there: query fields is *; often empty
	Method  string // {method} if the path names it, {body model} if that field does
}

// MethodCost is the cost of one call of a method.
type MethodCost struct {
	Method  string
	Units   quota.Units
	By      *FieldPrice              // not nil: the request says what it costs; Units is the cost of one that does not
	Amounts map[quota.Measure]Amount // in named measures
}

// NotModified returns the cost of a call of method that is answered with 304
// Not Modified: not_modified_units if the file sets them, but at most the full
// cost; otherwise the full cost. 0 means that it is free.
func (u *Upstream) NotModified(method string) quota.Units {
	full := u.site.cost(method)
	if u.NotModifiedUnits == nil {
		return full
	}
	return min(*u.NotModifiedUnits, full)
}

// BatchCall returns the cost of each call in a request of method, if batches
// has it, and otherwise 0.
func (u *Upstream) BatchCall(method string) quota.Units {
	if _, ok := u.site.batches[method]; !ok {
		return 0
	}
	return u.site.cost(method)
}

// Path returns the whole path of the file that Load read, or "" after Parse.
func (t *Table) Path() string { return t.path }

// Ledger returns the address of the ledger, or "" if the file has none. The
// path of a relative sqlite: address is resolved relative to the file.
func (t *Table) Ledger() string { return t.ledger }

// LedgerPlace returns where the file has the address of the ledger, as
// file:line:column, or "" if it has none.
func (t *Table) LedgerPlace() string { return t.ledgerPlace }

// Upstreams returns the upstreams in the order of the file.
func (t *Table) Upstreams() (all []Upstream) {
	for _, u := range t.upstreams {
		all = append(all, *u)
	}
	return all
}

// upstreamsOf returns the upstreams of an account.
func (t *Table) upstreamsOf(account string) []*Upstream {
	isOther := func(u *Upstream) bool { return u.Account != account }
	return slices.DeleteFunc(slices.Clone(t.upstreams), isOther)
}

// UpstreamOf returns the upstream that guards the host of a URL, or nil if none
// does. The endpoint of WithEndpoint counts as a guarded host.
func (t *Table) UpstreamOf(u *url.URL) *Upstream {
	if host, ok := canonicalHost(u.Scheme, u.Host); ok && t.sites[host] != nil {
		for _, u := range t.upstreams {
			if u.site == t.sites[host] {
				return u
			}
		}
	}
	return nil
}

// Accounts returns the accounts of all upstreams in the order of the file,
// each once.
func (t *Table) Accounts() (names []string) {
	for _, u := range t.upstreams {
		if name := u.Account; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Measures returns the named measures of an account's calls.
func (t *Table) Measures(account string) (all []quota.Measure) {
	for _, u := range t.upstreamsOf(account) {
		all = append(all, u.Measures...)
	}
	return all
}

// Budgets returns the budgets of all upstreams in the order of the file.
func (t *Table) Budgets() []quota.Budget {
	var all []quota.Budget
	for _, u := range t.upstreams {
		all = append(all, u.Budgets...)
	}
	return all
}

// History returns, for each account, the minimum time that the ledger keeps
// its entries: the longest history of the account's documents. It is meant
// for quota.Options.
func (t *Table) History() map[string]time.Duration {
	longest := map[string]time.Duration{}
	for _, u := range t.upstreams {
		longest[u.Account] = max(longest[u.Account], u.History)
	}
	return longest
}

// Covering returns the budgets that a call is charged to, in the order of the
// file. They include those of other upstreams with the same account.
func (t *Table) Covering(call quota.Call) []quota.Budget {
	var all []quota.Budget
	for _, budget := range t.Budgets() {
		if budget.Account == call.Account && budget.Coverage().Covers(call.Method, call.Caller.Lane,
			call.Caller.Region) {
			all = append(all, budget)
		}
	}
	return all
}

// Call returns the call of a method that is given by name. upstream is the name
// or account of an upstream, or "" if only one has the method: one that takes
// it as unlisted has it only if no other lists it. The error is a *MethodError
// that matches ErrNoCost, ErrUnknown or ErrManyUpstreams.
func (t *Table) Call(upstream, method string) (quota.Call, error) {
	fail := func(kind error, format string, args ...any) (quota.Call, error) {
		return quota.Call{}, &MethodError{Upstream: upstream, Method: method, Reason: fmt.Sprintf(format, args...),
			kind: kind}
	}
	var priced, asked []*Upstream
	known := map[string]bool{}
	for _, u := range t.upstreams {
		if upstream != "" && u.Name != upstream && u.Account != upstream {
			continue
		}
		asked = append(asked, u)
		for _, name := range u.methods() {
			known[name] = true
		}
	}
	for _, u := range asked {
		ofOther := known[method] && !slices.Contains(u.methods(), method)
		if !ofOther && u.price(method) > 0 {
			priced = append(priced, u)
		}
	}
	switch {
	case len(asked) == 0:
		return fail(ErrUnknown, "has no upstream %q; name one of %s", upstream, strings.Join(t.names(), ", "))
	case len(priced) > 1:
		return fail(ErrManyUpstreams, "is a method of several upstreams; name one of %s", strings.Join(t.names(), ", "))
	case len(priced) == 1:
		call := quota.Call{Account: priced[0].Account, Method: method, Units: priced[0].price(method)}
		priced[0].site.measure(&call, nil)
		return call, nil
	case known[method]:
		return fail(ErrNoCost, "has no cost; add it to costs: in costs.yaml")
	}
	if near := strictyaml.Nearest(method, slices.Sorted(maps.Keys(known))); near != "" {
		return fail(ErrUnknown, "is not a known method; write %s", near)
	}
	return fail(ErrUnknown, "is not a known method; write one that ration costs lists")
}

// price returns the cost of a method, or 0 if it must not be called.
func (u *Upstream) price(method string) quota.Units {
	if u.API != "" && !slices.Contains(u.site.api.methods(), method) {
		return 0
	}
	if method == "" || len(method) > quota.MaxLabel {
		return 0
	}
	batch, ok := u.site.batches[method]
	if !ok {
		return u.site.cost(method)
	}
	return multiply(u.site.cost(method), batch.Most)
}

func (t *Table) names() []string {
	var names []string
	for _, u := range t.upstreams {
		names = append(names, u.Name)
	}
	return names
}

// CheckFetched returns an error if calls of method by caller cannot be guarded.
// It is a *MethodError that matches ErrNoCost if the method has no cost,
// ErrManyUpstreams if it has several, ErrNoBudget if no budget covers it, and
// quota.ErrNeverFits if it exceeds the limit of a budget less the floors of
// other regions.
func (t *Table) CheckFetched(method string, caller quota.Caller) error {
	call, err := t.Call("", method)
	if err != nil {
		return err
	}
	call.Caller = caller
	budgets := t.Covering(call)
	if len(budgets) == 0 {
		return &MethodError{Method: method, Reason: "is covered by no budget; add one to budgets: in costs.yaml",
			kind: ErrNoBudget}
	}
	for i := range budgets {
		if reason := whyNeverFits(&budgets[i], call); reason != "" {
			return &MethodError{Method: method, Reason: reason, kind: quota.ErrNeverFits}
		}
	}
	return nil
}

// whyNeverFits returns the reason why a call exceeds a whole budget, or "".
func whyNeverFits(b *quota.Budget, call quota.Call) string {
	if b.Shadow {
		return ""
	}
	amount, kept := b.Amount(&call), quota.Units(0)
	for region, units := range b.Floor {
		if region != call.Caller.Region && b.FloorUntil == 0 {
			kept += units
		}
	}
	switch {
	case amount > b.Limit:
		return fmt.Sprintf("costs %s, more than the limit %s of budget %q; raise the limit in costs.yaml, or do not "+
			"fetch it",
			b.Measure.Number(amount), b.Measure.Number(b.Limit), b.Name)
	case amount > b.Limit-kept:
		return fmt.Sprintf("costs %s, which never fits beside the floors of other regions in budget %q, %s of its "+
			"limit %s; lower the floors in costs.yaml, or do not fetch it",
			b.Measure.Number(amount), b.Name, b.Measure.Number(kept), b.Measure.Number(b.Limit))
	}
	return ""
}

func (s *site) sortedCosts() []MethodCost {
	var sorted []MethodCost
	for method, units := range s.costs {
		sorted = append(sorted, MethodCost{method, units, s.fieldPrices[method], s.measured[method]})
	}
	slices.SortFunc(sorted, func(a, b MethodCost) int { return cmp.Compare(a.Method, b.Method) })
	return sorted
}
