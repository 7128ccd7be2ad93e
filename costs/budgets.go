package costs

import (
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

func (d *document) readBudgets(n strictyaml.Node) {
	entries := 0
	n.Items(func(n strictyaml.Node) {
		entries++
		b := quota.Budget{Account: d.Account}
		n.Fields(d.budgetFields(&b)...)
		d.Budgets = append(d.Budgets, b)
		d.budgets = append(d.budgets, n)
	})
	if n.Kind() == strictyaml.List && entries == 0 {
		n.Mistake("no budget: write one, such as {name: all, limit: 9500, window: 24h}")
	}
}

func (d *document) budgetFields(b *quota.Budget) []strictyaml.Field {
	words := func(list *[]string, read func(strictyaml.Node) string) func(strictyaml.Node) {
		return func(n strictyaml.Node) {
			n.Items(func(n strictyaml.Node) { *list = append(*list, read(n)) })
			if n.Kind() == strictyaml.List && len(*list) == 0 {
				n.Mistake("an empty list: name at least one, or remove the key to cover all")
			}
		}
	}
	method := func(n strictyaml.Node) string { return d.method(n) }
	label := func(n strictyaml.Node) string { return n.Text(quota.MaxLabel) }
	return []strictyaml.Field{
		{Key: "name", Missing: "name: all", Read: func(n strictyaml.Node) { b.Name = n.Text(maxText) }},
		{Key: "limit", Missing: "limit: 9500", Read: func(n strictyaml.Node) { b.Limit = quota.Units(n.Int(1, int64(quota.MaxLimit))) }},
		{Key: "window", Missing: "window: 24h, or {day: America/Los_Angeles}", Read: func(n strictyaml.Node) { readWindow(n, &b.Window) }},
		{Key: "count", Read: func(n strictyaml.Node) {
			if n.OneOf("count", []string{"units", "calls"}) == "calls" {
				b.Measure = quota.Calls
			}
		}},
		{Key: "methods", Read: words(&b.Methods, method)},
		{Key: "except", Read: words(&b.Except, method)},
		{Key: "lanes", Read: words(&b.Lanes, label)},
		{Key: "regions", Read: words(&b.Regions, label)},
	}
}

// readWindow reads 24h, {day: ZONE} or {counter: 10m}.
func readWindow(n strictyaml.Node, window *quota.Window) {
	if n.Kind() != strictyaml.Map {
		*window = quota.Sliding(length(n))
		return
	}
	found := 0
	n.Fields(windowFields(window, &found)...)
	if found != 1 {
		n.Mistake("a window is one thing: write 24h, {day: America/Los_Angeles} or {counter: 10m}")
	}
}

func windowFields(window *quota.Window, found *int) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "day", Read: func(n strictyaml.Node) {
			*found++
			if zone := n.Zone(); zone != nil {
				*window = quota.Daily(zone)
			}
		}},
		{Key: "counter", Read: func(n strictyaml.Node) {
			*found++
			*window = quota.Counter(length(n))
		}},
	}
}

func length(n strictyaml.Node) time.Duration {
	d := n.Duration(time.Millisecond, maxWindow)
	if d%time.Microsecond != 0 {
		n.Mistake("a window is whole microseconds: round it")
	}
	return d
}

// join makes the table, and checks what the documents say together.
func join(documents []*document) *Table {
	t := &Table{sites: map[string]*site{}}
	names, budgets := map[string]bool{}, map[[2]string]bool{}
	for i, d := range documents {
		if names[d.Name] && d.Name != "" {
			d.nameAt.Mistake("upstream %q is there twice: write another name", d.Name)
		}
		names[d.Name] = true
		if d.ledger != "" {
			if i > 0 && d.ledger != documents[0].ledger {
				d.ledgerAt.Mistake("another ledger than the first document's: write it there only")
			}
			t.ledger = d.ledger
		}
		for j, host := range d.Hosts {
			if t.sites[host] != nil {
				d.hostsAt[j].Mistake("host %s is there twice: write it once, since a request finds its upstream by host", host)
			}
			t.sites[host] = d.site
		}
		for j := range d.Budgets {
			name := [2]string{d.Account, d.Budgets[j].Name}
			if name[1] != "" && budgets[name] {
				d.budgets[j].Mistake("budget %q is there twice in its account: write another name", name[1])
			}
			budgets[name] = true
			for _, other := range documents {
				if other.Account == d.Account {
					other.checkLimit(&d.Budgets[j])
				}
			}
		}
		t.upstreams = append(t.upstreams, d.Upstream)
	}
	return t
}

// checkLimit reports costs of d above the limit of a budget that covers them:
// such a call would never be admitted.
func (d *document) checkLimit(b *quota.Budget) {
	if b.Limit == 0 {
		return // reported where it stands
	}
	coverage := b.Coverage()
	var caller quota.Caller // one that b covers
	if len(b.Lanes) > 0 {
		caller.Lane = b.Lanes[0]
	}
	if len(b.Regions) > 0 {
		caller.Region = b.Regions[0]
	}
	for method, at := range d.costsAt {
		if units := d.site.costs[method]; coverage.Covers(method, caller) && coverage.Amount(units) > b.Limit {
			at.Mistake("%s costs %d, more than the limit %d of budget %q: lower the cost or raise the limit", method, units, b.Limit, b.Name)
		}
	}
	unlisted := func(method string) bool { return d.site.costs[method] == 0 }
	if coverage.Amount(d.Unlisted) > b.Limit && (len(b.Methods) == 0 || slices.ContainsFunc(b.Methods, unlisted)) {
		d.unlisted.Mistake("unlisted costs %d, more than the limit %d of budget %q: lower the cost or raise the limit", d.Unlisted, b.Limit, b.Name)
	}
}
