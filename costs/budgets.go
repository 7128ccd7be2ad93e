package costs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// budgetEntry is an item of budgets while it is read: over the one that it
// overrides, and with the places of both.
type budgetEntry struct {
	quota.Budget
	at     strictyaml.Node
	keys   map[string]strictyaml.Node // those that are there
	floors map[string]strictyaml.Node // by region
	layer  int                        // of the lines that wrote to it last

	isInFlight bool          // in_flight: true
	lease      time.Duration // 0: none is written
}

func (d *document) readBudgets(n strictyaml.Node) {
	n.Items(func(n strictyaml.Node) {
		e := &budgetEntry{keys: map[string]strictyaml.Node{}, layer: d.layer}
		allKnown := n.Fields(d.budgetFields(e)...)
		e.at = d.placeFor(n)
		e.finishWindow(n, allKnown && !d.preset)
		i := d.overridden(e.Name)
		switch {
		case i < 0:
			d.checkNew(n, e.Name)
			d.budgets = append(d.budgets, e)
			return
		case d.reading == nil:
			(&override{d, n, d.budgets[i], e}).check()
		}
		d.budgets[i] = e
	})
	if n.IsEmpty() {
		n.Mistake("no budget: write one, such as {name: all, limit: 9500, window: 24h}")
	}
}

// checkNew reports missing keys of a budget that overrides none of
// the preset's.
func (d *document) checkNew(n strictyaml.Node, name string) {
	if d.Preset == nil || d.reading != nil {
		return // no preset has it, or this is the preset itself
	}
	if n.Kind() != strictyaml.Map || name == "" {
		return // malformed, which is reported elsewhere
	}
	var names []string
	for _, e := range d.budgets {
		names = append(names, e.Name)
	}
	if slices.Contains(names, name) {
		return // repeated, which is reported elsewhere
	}
	for _, key := range []string{"limit", "window"} {
		what := "its " + key
		if near := strictyaml.Nearest(name, names); near != "" {
			what = near + ", or " + what
		}
		if !n.Has(key) && (key != "window" || !n.Has("in_flight")) {
			n.Mistake("missing key %q: preset %s has no budget %q to take it from: write %s", key, d.Preset.Name, name,
				what)
		}
	}
}

// overridden returns the index of the budget of a name from an earlier layer,
// or -1 if there is none.
func (d *document) overridden(name string) int {
	return slices.IndexFunc(d.budgets, func(e *budgetEntry) bool { return e.Name == name && e.layer < d.layer })
}

// inherit begins e with the keys of the budget that it overrides, if any.
func (d *document) inherit(e *budgetEntry) {
	if i := d.overridden(e.Name); i >= 0 {
		from := d.budgets[i]
		e.Budget, e.floors = from.Budget, from.floors
		e.keys = maps.Clone(from.keys)
	}
}

// budgetFields returns the keys of a budget. The name is read first.
func (d *document) budgetFields(e *budgetEntry) []strictyaml.Field {
	b := &e.Budget
	method := func(n strictyaml.Node) string { return d.readMethod(n) }
	lane := func(n strictyaml.Node) string { return n.Text(quota.MaxLabel) }
	fields := []strictyaml.Field{
		{Key: "name", Missing: "name: all", Read: func(n strictyaml.Node) {
			b.Name = n.Text(maxText)
			d.inherit(e)
		}},
		{Key: "count", Read: func(n strictyaml.Node) {
			if name := n.OneOf("count", d.measureNames(), "or list it in measures"); name != "" {
				b.Measure = quota.Measure(strings.TrimPrefix(name, "units"))
			}
		}},
		{Key: "limit", Missing: d.orPreset("limit: 9500"), Read: func(n strictyaml.Node) {
			b.Limit = readAmount(n, b.Measure, 1, quota.MaxLimit)
			if d.reading != nil {
				d.UpstreamLimits[b.Name] = b.Limit
			} else if d.UpstreamLimits[b.Name] < b.Limit {
				delete(d.UpstreamLimits, b.Name) // the upstream allows this account more than the preset says
			}
		}},
		{Key: "window", Read: func(n strictyaml.Node) { readWindow(n, &b.Window) }},
		{Key: "in_flight", Read: func(n strictyaml.Node) {
			before := n.Mistakes()
			if e.isInFlight = n.Bool(); !e.isInFlight && n.Mistakes() == before {
				n.Mistake("in_flight is false: write true, or a window in its place")
			}
			d.setOrigin(n, "budgets", b.Name, "window")
		}},
		{Key: "lease", Read: func(n strictyaml.Node) { e.lease = readLease(n) }},
		{Key: "methods", Read: readWords(&b.Methods, method)},
		{Key: "except", Read: readWords(&b.Except, method)},
		{Key: "lanes", Read: readWords(&b.Lanes, lane)},
		{Key: "regions", Read: readWords(&b.Regions, d.readRegion)},
		{Key: "per", Read: func(n strictyaml.Node) {
			b.PerKey = n.OneOf("per", []string{"key"}, "with key: {path: NAME} beside budgets") == "key"
		}},
		{Key: "keys", Read: func(n strictyaml.Node) { readKeyLimits(n, b) }},
		{Key: "floor", Read: func(n strictyaml.Node) { d.readFloor(n, e) }},
		{Key: "floor_until", Read: func(n strictyaml.Node) { b.FloorUntil = readLength(n) }},
		{Key: "upstream_limit", Read: func(n strictyaml.Node) {
			limit := readAmount(n, b.Measure, 1, quota.MaxLimit)
			if d.UpstreamLimits[b.Name] = limit; limit > 0 && limit < b.Limit {
				n.Mistake("upstream_limit %s is less than the limit, %s: the upstream would refuse what the budget "+
					"admits; write a limit of at most %[1]s",
					b.Measure.Number(limit), b.Measure.Number(b.Limit))
			}
		}},
		{Key: "shadow", Read: func(n strictyaml.Node) { b.Shadow = n.Bool() }},
	}
	for i, field := range fields {
		fields[i].Read = func(n strictyaml.Node) {
			field.Read(n)
			e.keys[field.Key] = d.placeFor(n)
			d.setOrigin(n, "budgets", b.Name, field.Key)
		}
	}
	return fields
}

// readWords returns a function that reads a list of at least one word.
func readWords(list *[]string, read func(strictyaml.Node) string) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		*list = nil
		n.Items(func(n strictyaml.Node) { *list = append(*list, read(n)) })
		if n.IsEmpty() {
			n.Mistake("an empty list: name at least one, or remove the key to cover all")
		}
	}
}

// newTable returns the table of all documents, and makes the checks that need
// all of them.
func newTable(documents []*document) *Table {
	t := &Table{sites: map[string]*site{}, domains: map[string]*domain{}, unguarded: map[string]bool{}}
	names, budgets := map[string]bool{}, map[[2]string]bool{}
	for i, d := range documents {
		if names[d.Name] && d.Name != "" {
			d.at["upstream"].Mistake("repeated upstream %q: write another name", d.Name)
		}
		names[d.Name] = true
		if d.ledger != "" {
			if i > 0 && d.ledger != documents[0].ledger {
				d.at["ledger"].Mistake("ledger differs from that of the first document: write it there only")
			}
			t.ledger = d.ledger
			file, line, column := d.at["ledger"].Place()
			t.ledgerPlace = fmt.Sprintf("%s:%d:%d", file, line, column)
		}
		for j, host := range d.Hosts {
			if t.sites[host] != nil {
				d.hostsAt[j].Mistake("repeated host %s: write it once, since a request finds its upstream by host",
					host)
			}
			t.sites[host] = d.site
		}
		for _, e := range d.budgets {
			name := [2]string{d.Account, e.Name}
			if name[1] != "" && budgets[name] {
				e.at.Mistake("repeated budget %q in one account: write another name", name[1])
			}
			budgets[name] = true
			for _, other := range documents {
				if other.Account == d.Account {
					other.checkLimit(&e.Budget)
					other.checkBatches(e)
				}
			}
		}
		t.addDomains(d)
		t.upstreams = append(t.upstreams, new(d.Upstream))
	}
	checkAccounts(documents)
	checkCoverages(documents)
	checkMeasuresOfAccounts(documents)
	checkRules(documents)
	return t
}

// checkAccounts reports accounts of one file whose names differ only in case or
// in spaces around them.
func checkAccounts(documents []*document) {
	for i, d := range documents {
		for _, before := range documents[:i] {
			if (&engine.LookAlikeError{Account: d.Account, Known: before.Account}).IsAlike() {
				d.at["account"].Mistake("account %q differs from account %q only in case or spaces: each would have "+
					"the whole limit; write both alike, or choose another name", d.Account, before.Account)
				break
			}
		}
	}
}

// checkCoverages reports an account whose budgets have more coverages than a
// ledger supports.
func checkCoverages(documents []*document) {
	seen := map[string]map[string]bool{}
	for _, d := range documents {
		if seen[d.Account] == nil {
			seen[d.Account] = map[string]bool{}
		}
		coverages := seen[d.Account]
		for _, e := range d.budgets {
			before := len(coverages)
			coverages[e.Coverage().Text()] = true
			for region := range e.Floor {
				of := e.Budget
				of.Regions = []string{region}
				coverages[of.Coverage().Text()] = true
			}
			if before <= quota.MaxCoverages && len(coverages) > quota.MaxCoverages {
				e.at.Mistake("the budgets of account %q cover more than %d different sets of calls, "+
					"floors included: remove some", d.Account, quota.MaxCoverages)
			}
		}
	}
}

// checkLimit reports costs of d that exceed a budget that covers them. Costs of
// a preset are not checked here, but when they are called.
func (d *document) checkLimit(b *quota.Budget) {
	if b.Limit == 0 || b.Shadow { // reported elsewhere, or refuses nothing
		return
	}
	coverage, caller := b.Coverage(), coveredCaller(b)
	kept := reservedForOthers(b)
	for method, at := range d.costsAt {
		call := quota.Call{Method: method, Units: d.site.costs[method]}
		d.site.measure(&call, nil)
		amount, number := b.Amount(&call), b.Measure.Number
		switch {
		case !coverage.Covers(method, caller.Lane, caller.Region):
		case amount > b.Limit:
			at.Mistake("%s costs %s, more than the limit %s of budget %q: lower the cost or raise the limit", method,
				number(amount), number(b.Limit), b.Name)
		case amount > b.Limit-kept:
			at.Mistake("%s costs %s, which never fits beside the floors of budget %q, %s of its limit %s: lower the "+
				"floors or raise the limit",
				method, number(amount), b.Name, number(kept), number(b.Limit))
		}
	}
	unlisted := func(method string) bool { return d.site.costs[method] == 0 }
	if b.Amount(&quota.Call{Units: d.Unlisted}) > b.Limit &&
		(len(b.Methods) == 0 || slices.ContainsFunc(b.Methods, unlisted)) {
		d.at["unlisted"].Mistake("unlisted costs %d, more than the limit %d of budget %q: lower the cost or raise the "+
			"limit", d.Unlisted, b.Limit, b.Name)
	}
}

// coveredCaller returns a caller that b covers.
func coveredCaller(b *quota.Budget) (caller quota.Caller) {
	if len(b.Lanes) > 0 {
		caller.Lane = b.Lanes[0]
	}
	if len(b.Regions) > 0 {
		caller.Region = b.Regions[0]
	}
	return caller
}

// Regions returns the regions that budgets name, some of them twice.
func (t *Table) Regions() (names []string) {
	for _, b := range t.Budgets() {
		names = slices.AppendSeq(append(names, b.Regions...), maps.Keys(b.Floor))
	}
	return names
}

// UpstreamLimit returns what the upstream itself allows in a budget's window,
// or 0 if that is not known: see Upstream.UpstreamLimits.
func (t *Table) UpstreamLimit(account, budget string) quota.Units {
	for _, u := range t.upstreamsOf(account) {
		if u.UpstreamLimits[budget] > 0 {
			return u.UpstreamLimits[budget]
		}
	}
	return 0
}
