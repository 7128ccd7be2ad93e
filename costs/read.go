package costs

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// Load reads and checks the costs.yaml at path. Mistakes are a
// *strictyaml.Error with all of them. A relative ledger is relative to the
// file. A file that others may write to is strictyaml.ErrUnsafeFile.
func Load(path string) (*Table, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("costs: load: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("costs: load: %w", err)
	}
	return parse(path, dir, data)
}

// Parse checks data, which came from a file of that name. It is Load without
// the file: a relative ledger is relative to the folder of name.
func Parse(name string, data []byte) (*Table, error) {
	return parse(name, filepath.Dir(name), data)
}

func parse(name, dir string, data []byte) (*Table, error) {
	file := strictyaml.Parse(name, data)
	var documents []*document
	for _, node := range file.Documents() {
		d := &document{dir: dir, nameAt: node, allowed: map[string]strictyaml.Node{}}
		d.Upstream.site = &site{costs: map[string]quota.Units{}}
		node.Fields(d.fields()...)
		d.finish(node)
		documents = append(documents, d)
	}
	table := join(documents)
	if err := file.Err(); err != nil {
		return nil, err
	}
	return table, nil
}

// document is an upstream while it is read, with the places of what is to be
// checked against other documents.
type document struct {
	Upstream
	dir     string
	ledger  string
	methods []string // the api's

	nameAt   strictyaml.Node
	ledgerAt strictyaml.Node
	apiAt    strictyaml.Node
	hostsAt  []strictyaml.Node // one for each host
	unlisted strictyaml.Node
	costsAt  map[string]strictyaml.Node
	budgets  []strictyaml.Node // one for each budget
	allowed  map[string]strictyaml.Node
}

const (
	maxText     = 256                  // bytes of a name; quota's own bound
	maxWindow   = 400 * 24 * time.Hour // quota's own bound
	defaultRule = "default"
	anything    = 4096 // bytes of a ledger's address
)

// fields are the keys of a document, in the order in which they are read: the
// names of methods need the api.
func (d *document) fields() []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "version", Missing: "version: 1", Read: func(n strictyaml.Node) { n.Int(1, 1) }},
		{Key: "upstream", Read: func(n strictyaml.Node) { d.nameAt, d.Name = n, n.Text(maxText) }},
		{Key: "account", Missing: "account: my-project, the upstream project whose quota it is", Read: d.readAccount},
		{Key: "ledger", Read: d.readLedger},
		{Key: "api", Read: func(n strictyaml.Node) {
			d.apiAt, d.API = n, n.OneOf("api", apiNames())
			if d.site.api = apiNamed(d.API); d.site.api != nil {
				d.methods = d.site.api.methods()
			}
		}},
		{Key: "hosts", Read: func(n strictyaml.Node) { n.Items(d.readHost) }},
		{Key: "resets", Read: func(n strictyaml.Node) { n.Fields(resetFields(&d.Resets)...) }},
		{Key: "unlisted", Read: d.readUnlisted},
		{Key: "costs", Missing: "costs: {search.list: 100}, a cost for each method", Read: d.readCosts},
		{Key: "budgets", Missing: "budgets: [{name: all, limit: 9500, window: 24h}]", Read: d.readBudgets},
		{Key: "when_ledger_down", Read: func(n strictyaml.Node) {
			d.down = map[string]quota.Units{}
			n.Entries(d.readDown)
		}},
	}
}

func resetFields(zone **time.Location) []strictyaml.Field {
	return []strictyaml.Field{{Key: "day", Missing: "day: America/Los_Angeles", Read: func(n strictyaml.Node) { *zone = n.Zone() }}}
}

func (d *document) readAccount(n strictyaml.Node) {
	d.Account = n.Text(maxText)
	if strings.Contains(d.Account, "AIza") {
		n.Mistake("account looks like an API key, and would be shown in logs and key names: write the name of the project")
		d.Account = ""
	}
	d.site.account = d.Account
}

func (d *document) readHost(n strictyaml.Node) {
	text := n.Text(maxText)
	if text == "" {
		return
	}
	host, ok := canonicalHost("", text)
	switch {
	case strings.Contains(text, "/"):
		n.Mistake("a host is not a URL: write the part between // and the next /")
	case strings.Contains(text, "*"):
		n.Mistake("a host has no wildcard: write each host by its name")
	case !ok || host == "" || strings.Trim(withoutPort(host), ".:") == "":
		n.Mistake("not a host: write letters, digits, dots and hyphens, such as www.googleapis.com")
	default:
		d.Hosts = append(d.Hosts, host)
		d.hostsAt = append(d.hostsAt, n)
	}
}

func (d *document) readUnlisted(n strictyaml.Node) {
	d.unlisted = n
	switch n.Kind() {
	case strictyaml.Text:
		n.OneOf("policy", []string{"refuse"})
	case strictyaml.Integer:
		d.Unlisted = quota.Units(n.Int(1, int64(quota.MaxUnits)))
	default:
		n.Mistake("unlisted is neither refuse nor a number: write refuse, or what a method without a cost costs")
	}
	d.site.unlisted = d.Unlisted
}

func (d *document) readCosts(n strictyaml.Node) {
	d.costsAt = map[string]strictyaml.Node{}
	entries := 0
	n.Entries(func(key, value strictyaml.Node) {
		entries++
		var method string
		if d.API != "" {
			method = d.method(key)
		} else {
			method = key.Text(quota.MaxLabel)
		}
		units := quota.Units(value.Int(1, int64(quota.MaxUnits)))
		if method != "" && units > 0 {
			d.site.costs[method], d.costsAt[method] = units, value
		}
	})
	if n.Kind() == strictyaml.Map && entries == 0 && d.Unlisted == 0 {
		n.Mistake("no method has a cost: write one, such as search.list: 100")
	}
	d.Costs = sortCosts(d.site.costs)
}

// method reads the name of a method in budgets and when_ledger_down, or one of
// other words: one that has a cost, or could have one.
func (d *document) method(n strictyaml.Node, other ...string) string {
	switch {
	case d.API != "":
		return n.OneOf("method of "+d.API, slices.Concat(d.methods, other))
	case d.Unlisted == 0:
		return n.OneOf("method", slices.Concat(slices.Sorted(maps.Keys(d.site.costs)), other))
	}
	return n.Text(quota.MaxLabel)
}

func (d *document) readDown(key, value strictyaml.Node) {
	rule := d.method(key, defaultRule)
	var units quota.Units
	switch value.Kind() {
	case strictyaml.Text:
		value.OneOf("policy", []string{"refuse"})
	case strictyaml.Map:
		value.Fields(allowFields(&units)...)
	default:
		value.Mistake("neither refuse nor an allowance: write refuse, or {allow: 50}")
	}
	if rule != "" {
		d.down[rule], d.allowed[rule] = units, value
	}
}

func allowFields(units *quota.Units) []strictyaml.Field {
	return []strictyaml.Field{{Key: "allow", Missing: "allow: 50, in units", Read: func(n strictyaml.Node) {
		*units = quota.Units(n.Int(1, int64(quota.MaxUnits)))
	}}}
}

// finish checks what needs the whole document, and names it.
func (d *document) finish(node strictyaml.Node) {
	if len(d.Hosts) > 0 && d.API == "" && d.apiAt == (strictyaml.Node{}) {
		node.Mistake("hosts without an api: write api: %s, from which the routes come", apiNames()[0])
	}
	if d.API != "" && len(d.Hosts) == 0 {
		d.apiAt.Mistake("an api without hosts: write hosts: [youtube.googleapis.com, www.googleapis.com]")
	}
	for rule, units := range d.down {
		if cost := d.site.costs[rule]; rule != defaultRule && units > 0 && cost > units {
			d.allowed[rule].Mistake("%s costs %d, more than its allowance of %d units: write refuse, or at least %d", rule, cost, units, cost)
		}
	}
	if d.Name == "" {
		d.Name, _, _ = strings.Cut(d.API, "/")
	}
	if d.Name == "" {
		d.Name = d.Account
	}
}
