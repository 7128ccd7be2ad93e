package costs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// DownRule is a rule of when_ledger_down: how many units the calls that it
// covers may spend while the ledger is down. An empty list covers all.
type DownRule struct {
	Methods []string    `json:"methods"`
	Lanes   []string    `json:"lanes"`
	Jobs    []string    `json:"jobs"`
	Regions []string    `json:"regions"`
	Allow   quota.Units `json:"allow"` // per account, host and trailing 24 hours; 0 refuses
	Origin  Origin      `json:"from"`
}

// MostAllowed returns the most that calls of a method, by any caller, may spend
// while the ledger is down.
func (u *Upstream) MostAllowed(method string) (most quota.Units) {
	for i := range u.Down {
		r := &u.Down[i]
		if !covers(r.Methods, method) {
			continue
		}
		most = max(most, r.Allow)
		if len(r.Lanes)+len(r.Jobs)+len(r.Regions) == 0 {
			break
		}
	}
	return most
}

// Covers reports whether the rule applies to calls of method by caller.
func (r *DownRule) Covers(method string, caller quota.Caller) bool {
	if !covers(r.Methods, method) {
		return false
	}
	return covers(r.Lanes, caller.Lane) && covers(r.Jobs, caller.Job) && covers(r.Regions, caller.Region)
}

// String describes the rule in one line, such as "search.list: refuse" or
// "lanes backfill, jobs nightly: allow 50".
func (r *DownRule) String() string {
	var parts []string
	add := func(before string, words []string) {
		if len(words) > 0 {
			parts = append(parts, before+strings.Join(words, " "))
		}
	}
	add("", r.Methods)
	add("lanes ", r.Lanes)
	add("jobs ", r.Jobs)
	add("regions ", r.Regions)
	if len(parts) == 0 {
		parts = []string{"all other calls"}
	}
	then := "refuse"
	if r.Allow > 0 {
		then = fmt.Sprintf("allow %d", r.Allow)
	}
	return strings.Join(parts, ", ") + ": " + then
}

func covers(list []string, word string) bool {
	return len(list) == 0 || slices.Contains(list, word)
}

// Allowance returns how many units the account of a call may spend without the
// ledger before the call is refused; 0 refuses it. All methods of the account
// count together. If several documents of the account price the method, the
// strictest decides; if none does, the strictest of all its documents.
// Allowance uses the call's Account, Method and Caller.
func (t *Table) Allowance(call quota.Call) quota.Units {
	all := t.upstreamsOf(call.Account)
	hasNone := func(u *Upstream) bool { return u.price(call.Method) == 0 }
	if priced := slices.DeleteFunc(slices.Clone(all), hasNone); len(priced) > 0 {
		all = priced
	}
	var allowances []quota.Units
	for _, u := range all {
		allowances = append(allowances, u.Allowance(call.Method, call.Caller))
	}
	if len(allowances) == 0 {
		return 0
	}
	return slices.Min(allowances)
}

// Allowance returns the allowance of the first rule in Down that covers the
// call, or 0, which refuses it, if there is none. Use Table.Allowance if
// several documents have the same account.
func (u *Upstream) Allowance(method string, caller quota.Caller) quota.Units {
	for i := range u.Down {
		if u.Down[i].Covers(method, caller) {
			return u.Down[i].Allow
		}
	}
	return 0
}

// readDown reads when_ledger_down: a rule for each method and a default, or a
// list of rules, the first of which that covers a call decides.
func (d *document) readDown(n strictyaml.Node) {
	isPolicy := n.Has("allow") && !slices.Contains(d.Upstream.methods(), "allow")
	switch kind := n.Kind(); {
	case kind == strictyaml.List:
		d.readDownRules(n)
		return
	case kind != strictyaml.Map || isPolicy:
		n.Mistake("a policy without its methods: write {default: refuse}, or {default: {allow: 50}}")
		return
	}
	var last []DownRule
	n.Entries(func(key, value strictyaml.Node) {
		method := d.readMethod(key, defaultRule)
		rule := DownRule{Methods: []string{method}, Allow: readThen(value), Origin: originOf(key)}
		switch method {
		case "":
		case defaultRule:
			rule.Methods = nil
			last = append(last, rule)
		default:
			d.Down = append(d.Down, rule)
			d.allowed = append(d.allowed, placedRule{rule, value})
		}
	})
	d.Down = append(d.Down, last...)
}

// readDownRules reads the list form.
func (d *document) readDownRules(n strictyaml.Node) {
	label := func(n strictyaml.Node) string { return n.Text(quota.MaxLabel) }
	n.Items(func(n strictyaml.Node) {
		rule, then := DownRule{Origin: originOf(n)}, strictyaml.Node{}
		before := n.Mistakes()
		n.Fields([]strictyaml.Field{
			{Key: "methods", Read: readWords(&rule.Methods, func(n strictyaml.Node) string { return d.readMethod(n) })},
			{Key: "lanes", Read: readWords(&rule.Lanes, label)},
			{Key: "jobs", Read: readWords(&rule.Jobs, label)},
			{Key: "regions", Read: readWords(&rule.Regions, d.readRegion)},
			{Key: "then", Missing: "then: refuse, or then: {allow: 50}", Read: func(n strictyaml.Node) { then = n }},
		}...)
		if then == (strictyaml.Node{}) {
			return // Fields has reported it
		}
		if n.Mistakes() > before {
			readThen(then)
			return // its coverage is unknown
		}
		rule.Allow = readThen(then)
		for i := range d.Down {
			if d.Down[i].includes(&rule) {
				n.Mistake("rule %q is never reached, since the rule in line %d decides its calls: write it before "+
					"that one, or remove it", rule.String(), d.Down[i].Origin.Line)
				return
			}
		}
		d.Down = append(d.Down, rule)
		d.allowed = append(d.allowed, placedRule{rule, then})
	})
	if n.IsEmpty() {
		n.Mistake("no rule: write one, such as [{then: {allow: 50}}], or remove the key to refuse all")
	}
}

// includes reports whether r covers every call that other covers.
func (r *DownRule) includes(other *DownRule) bool {
	within := func(part, whole []string) bool {
		if len(whole) == 0 || len(part) == 0 {
			return len(whole) == 0
		}
		return !slices.ContainsFunc(part, func(word string) bool { return !slices.Contains(whole, word) })
	}
	if !within(other.Methods, r.Methods) {
		return false
	}
	return within(other.Lanes, r.Lanes) && within(other.Jobs, r.Jobs) && within(other.Regions, r.Regions)
}

// readThen reads refuse, which is 0, or {allow: 50}.
func readThen(n strictyaml.Node) (units quota.Units) {
	switch n.Kind() {
	case strictyaml.Text:
		n.OneOf("policy", []string{"refuse"}, "{allow: 50}")
	case strictyaml.Map:
		n.Fields(strictyaml.Field{Key: "allow", Missing: "allow: 50, in units",
			Read: func(n strictyaml.Node) { units = quota.Units(n.Int(1, int64(quota.MaxUnits))) }})
	default:
		n.Mistake("neither refuse nor an allowance: write refuse, or {allow: 50}")
	}
	return units
}

// placedRule is a rule and the place of its allowance.
type placedRule struct {
	rule DownRule
	at   strictyaml.Node
}

// checkAllowances reports an allowance below the cost of a method that its
// rule names.
func (d *document) checkAllowances() {
	for _, allowed := range d.allowed {
		for _, method := range allowed.rule.Methods {
			if cost, units := d.site.costs[method], allowed.rule.Allow; units > 0 && cost > units {
				allowed.at.Mistake("%s costs %d, more than its allowance of %d units: write refuse, or at least %d",
					method, cost, units, cost)
			}
		}
	}
}
