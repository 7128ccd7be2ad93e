package costs

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// Load reads and checks the costs.yaml at path. The error is a
// *strictyaml.Error with all mistakes in the file, or matches
// files.ErrUnsafe if other users may write to it. A relative path in it is
// relative to its folder, or of a symbolic link to that of what it leads to.
func Load(path string) (*Table, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("costs: load: %w", err)
	}
	target, err := files.Target(path)
	if err != nil {
		return nil, fmt.Errorf("costs: load: %w", err)
	}
	table, err := parse(path, filepath.Dir(target), data)
	if err != nil {
		return nil, err
	}
	table.setConfig(target)
	return table, nil
}

// setConfig says of the table and its budgets that the file at path is
// their configuration.
func (t *Table) setConfig(path string) {
	t.path = path
	host, _ := os.Hostname()
	machine, _ := os.ReadFile("/etc/machine-id") // hosts may share a name
	config := quota.Config{Name: fmt.Sprintf("%s %s %s", host, strings.TrimSpace(string(machine)), t.path)}
	if info, err := os.Stat(path); err == nil {
		config.Changed = info.ModTime()
	}
	for _, u := range t.upstreams {
		for i := range u.Budgets {
			u.Budgets[i].Config = config
		}
	}
}

// Parse is like Load, but reads data. Errors give name as the file, and a
// relative ledger path is relative to the folder of name.
func Parse(name string, data []byte) (*Table, error) {
	return parse(name, filepath.Dir(name), data)
}

func parse(name, dir string, data []byte) (*Table, error) {
	file := strictyaml.Parse(name, data)
	var documents []*document
	for _, node := range file.Documents() {
		d := newDocument(node)
		d.dir, d.preset = dir, node.Has("preset")
		d.hasUnknown = !node.Fields(d.fields()...)
		d.checkWhole(node)
		documents = append(documents, d)
	}
	table := newTable(documents)
	if err := file.Err(); err != nil {
		return nil, err
	}
	return table, nil
}

// document is an upstream while it is read: first the lines of its preset, then
// those of the preset's variant, then its own, each replacing earlier ones. It
// also holds the places of lines that are checked later.
type document struct {
	Upstream
	dir     string
	ledger  string
	methods []string // the api's

	domainsRead bool              // false: the domains are those of the hosts
	insecureAt  []strictyaml.Node // one for each insecure host
	unguardedAt []strictyaml.Node // one for each unguarded host of the file itself

	preset  bool    // the file names a preset
	reading *Preset // the preset whose lines are being read; nil: the file itself
	layer   int     // number of layers read before: preset, variant

	at           map[string]strictyaml.Node // where each key is, or the preset that has it
	hostsAt      []strictyaml.Node          // one for each host
	hostsMisread bool                       // they are there, and reported
	hasUnknown   bool                       // there is an unknown key, which may be a typo of one that is missing
	costsAt      map[string]strictyaml.Node
	measuresAt   map[quota.Measure]strictyaml.Node // of the file's own
	budgets      []*budgetEntry
	allowed      []placedRule
	later        []func(budgets []string) // checks of names in answers, once all documents are read
}

func newDocument(node strictyaml.Node) *document {
	d := &document{at: map[string]strictyaml.Node{"upstream": node}, costsAt: map[string]strictyaml.Node{}}
	d.measuresAt = map[quota.Measure]strictyaml.Node{}
	d.site = &site{costs: map[string]quota.Units{}, batches: map[string]BatchMethod{}}
	d.site.measured, d.site.lease = map[string]map[quota.Measure]Amount{}, defaultLease
	d.site.fieldPrices = map[string]*FieldPrice{}
	d.origins, d.UpstreamLimits = map[string]Origin{}, map[string]quota.Units{}
	d.ResetMargin = quota.DefaultMargin
	return d
}

const (
	maxText     = 256 // bytes of a name; quota's own bound
	defaultRule = "default"
	anything    = 4096 // bytes of a ledger's address
)

// fields returns the keys of a document in the order in which they are read:
// the preset comes before the lines that override it.
func (d *document) fields() []strictyaml.Field {
	return slices.Concat(d.placed([]strictyaml.Field{
		{Key: "version", Missing: "version: 1", Read: func(n strictyaml.Node) { n.Int(1, 1) }},
		{Key: "preset", Read: d.readPreset},
		{Key: "account", Missing: "account: my-project, the upstream project whose quota it is", Read: d.readAccount},
		{Key: "ledger", Read: d.readLedger},
		{Key: "credential", Read: d.readCredential},
		{Key: "insecure", Read: d.readInsecure},
	}), d.lineFields(), d.placed([]strictyaml.Field{
		{Key: "lanes", Read: d.readLanes},
		{Key: "when_ledger_down", Read: d.readDown},
		{Key: "alert", Read: d.readAlert},
	}))
}

// lineFields returns the keys that presets and variants have too. The api comes
// before keys with names of methods.
func (d *document) lineFields() []strictyaml.Field {
	return d.placed([]strictyaml.Field{
		{Key: "upstream", Read: func(n strictyaml.Node) { d.Name = n.Text(maxText) }},
		{Key: "api", Read: d.readAPI},
		{Key: "hosts", Read: func(n strictyaml.Node) {
			d.Hosts, d.hostsAt = nil, nil
			before := n.Mistakes()
			n.Items(d.readHost)
			d.hostsMisread = n.Mistakes() > before
		}},
		{Key: "domains", Read: d.readDomains},
		{Key: "unguarded", Read: d.readUnguarded},
		{Key: "routes", Read: d.readRoutes},
		{Key: "key", Read: d.readKey},
		{Key: "resets", Read: d.readResets},
		{Key: "reset_margin", Read: d.readMargin},
		{Key: "history", Read: d.readHistory},
		{Key: "unlisted", Read: d.readUnlisted},
		{Key: "feedback", Read: func(n strictyaml.Node) {
			d.Feedback = n.OneOf("feedback", feedback.Names(), "or rules of your own under answers")
		}},
		{Key: "measures", Read: d.readMeasures},
		{Key: "lease", Read: func(n strictyaml.Node) { d.site.lease = n.Seconds(time.Second, 24*time.Hour) }},
		{Key: "answers", Read: d.readAnswers},
		{Key: "not_modified_units", Read: func(n strictyaml.Node) {
			d.NotModifiedUnits = new(quota.Units(n.Int(0, int64(quota.MaxUnits))))
		}},
		{Key: "costs", Missing: d.orPreset("costs: {search.list: 100}, a cost for each method"), Read: d.readCosts},
		{Key: "batches", Read: d.readBatches},
		{Key: "budgets", Missing: d.orPreset("budgets: [{name: all, limit: 9500, window: 24h}]"), Read: d.readBudgets},
	})
}

// has reports whether the file, or its preset, has a key of a document.
func (d *document) has(key string) bool { return d.at[key] != strictyaml.Node{} }

// orPreset returns what to write for a missing key, or "" if there is a preset,
// which has it.
func (d *document) orPreset(write string) string {
	if d.preset {
		return ""
	}
	return write
}

func (d *document) readAccount(n strictyaml.Node) {
	d.Account = n.Text(maxText)
	if strings.Contains(d.Account, "AIza") {
		n.Mistake("account looks like an API key, and would be shown in logs and key names: write the name of the " +
			"project")
		d.Account = ""
	}
	d.site.account = d.Account
}

func (d *document) readAPI(n strictyaml.Node) {
	d.API = n.OneOf("api", apiNames())
	if d.site.api = apiNamed(d.API); d.site.api != nil {
		d.methods = d.site.api.methods()
	}
}

func (d *document) readHost(n strictyaml.Node) {
	text := n.Text(maxText)
	if text == "" {
		return
	}
	host, ok := canonicalHost("", text)
	address, _ := netip.ParseAddr(text)
	switch {
	case address.Is6():
		n.Mistake("an IPv6 address goes in brackets: write \"[%s]\"", address)
	case strings.Contains(text, "/"):
		n.Mistake("a host is not a URL: write the part between // and the next /")
	case strings.Contains(text, "*"):
		n.Mistake("a host has no wildcard: write each host by its name")
	case !ok, strings.Contains("."+withoutPort(host)+".", ".."), withoutPort(host) == ":":
		n.Mistake("not a host: write letters, digits, dots and hyphens, such as www.googleapis.com")
	case !isPort(host[len(withoutPort(host)):]):
		n.Mistake("%s has no port from 1 to 65535: correct the port, or leave it out", host)
	default:
		d.Hosts = append(d.Hosts, host)
		d.hostsAt = append(d.hostsAt, d.placeFor(n))
	}
}

func (d *document) readUnlisted(n strictyaml.Node) {
	d.Unlisted = 0
	switch n.Kind() {
	case strictyaml.Text:
		n.OneOf("policy", []string{"refuse"}, "what a method without a cost costs")
	case strictyaml.Integer:
		d.Unlisted = quota.Units(n.Int(1, int64(quota.MaxUnits)))
	default:
		n.Mistake("unlisted is neither refuse nor a number: write refuse, or what a method without a cost costs")
	}
	d.site.unlisted = d.Unlisted
}

func (d *document) readCosts(n strictyaml.Node) {
	keys := map[string]strictyaml.Node{}
	n.Entries(func(key, value strictyaml.Node) {
		var method string
		if d.API != "" {
			method = d.readMethod(key)
		} else {
			method = key.Text(quota.MaxLabel)
		}
		units := d.readCost(value, method)
		if method == "" || units == 0 {
			return
		}
		d.site.costs[method] = units
		if d.reading == nil {
			keys[method], d.costsAt[method] = key, value
		}
		d.setOrigin(key, "costs", method)
	})
	for method, key := range keys {
		d.checkSpelling(key, method)
	}
	if n.IsEmpty() && d.Unlisted == 0 && !d.preset {
		n.Mistake("no method has a cost: write one, such as search.list: 100")
	}
}

// readCost reads what a call of a method costs, or 0 after a mistake.
func (d *document) readCost(n strictyaml.Node, method string) quota.Units {
	delete(d.site.fieldPrices, method)
	delete(d.site.measured, method)
	isField := slices.ContainsFunc(placesOfPrice, n.Has)
	if n.Kind() == strictyaml.Map && !isField && method != "" {
		return d.readMethodCost(n, method)
	}
	return d.readUnits(n, method)
}

// readMethod reads the name of a method that has or may have a cost, or one of
// the other words.
func (d *document) readMethod(n strictyaml.Node, other ...string) string {
	switch {
	case d.API != "":
		return n.OneOf("method of "+d.API, slices.Concat(d.methods, other))
	case d.Unlisted == 0:
		return n.OneOf("method", slices.Concat(d.Upstream.methods(), other))
	}
	return n.Text(quota.MaxLabel)
}

// checkWhole makes the checks that need the whole document, and sets defaults.
func (d *document) checkWhole(node strictyaml.Node) {
	if d.preset && d.Preset == nil {
		return // the preset is unknown, and so are its lines
	}
	d.checkAsks()
	routed := d.API != "" || len(d.site.patterns) > 0
	// if malformed, reported elsewhere
	hasRouteLine := d.has("api") || d.has("routes")
	hostsTold := d.hasUnknown || d.hostsMisread || d.findAsk("hosts") != ""
	switch {
	case d.hasUnknown:
	case len(d.Hosts) > 0 && !routed && !hasRouteLine:
		node.Mistake("hosts without an api: write api: %s, from which the routes come, or routes: {\"GET "+
			"/v1/{path...}\": read}", apiNames()[0])
	case len(d.Hosts) == 0 && hostsTold:
	case d.API != "" && len(d.Hosts) == 0:
		d.at["api"].Mistake("an api without hosts: write hosts: [youtube.googleapis.com, www.googleapis.com]")
	case routed && len(d.Hosts) == 0:
		d.at["routes"].Mistake("routes without hosts: write hosts: [api.example.com]")
	}
	if d.API != "" && len(d.site.patterns) > 0 {
		d.at["routes"].Mistake("routes beside an api: remove one, since api %s says which verb and path is which "+
			"method", d.API)
	}
	if d.has("credential") && len(d.Hosts) == 0 && !hostsTold {
		d.at["credential"].Mistake("a credential without hosts is sent nowhere: write hosts: [api.example.com], or " +
			"remove it")
	}
	d.setDomains()
	d.checkUnguarded()
	d.checkInsecure()
	d.checkKey()
	d.checkKeyLimits()
	d.checkAllowances()
	d.setMargins()
	d.checkMeasures()
	d.finishBudgets()
	d.Costs = d.site.sortedCosts()
	if d.Feedback == "" {
		d.Feedback = feedback.ForHosts(d.Hosts)
		if d.API != "" {
			d.Feedback = "google"
		}
	}
	if d.Name == "" {
		name, _, _ := strings.Cut(d.API, "/")
		d.Name = cmp.Or(name, d.Account)
	}
}

// checkSpelling reports a cost whose method is probably a typo of one that
// routes lead to and that has no cost.
func (d *document) checkSpelling(key strictyaml.Node, method string) {
	var bare []string
	for i := range d.Routes {
		r := &d.Routes[i]
		if r.Method == method || !r.isNamed() {
			return
		}
		if d.site.costs[r.Method] == 0 {
			bare = append(bare, r.Method)
		}
	}
	if near := strictyaml.Nearest(method, bare); near != "" {
		key.Mistake("unknown method %q: write %s, to which the routes lead", method, near)
	}
}

// methods returns the methods that costs and budgets may name.
func (u *Upstream) methods() []string {
	if u.API != "" {
		return u.site.api.methods()
	}
	names := slices.Collect(maps.Keys(u.site.costs))
	for i := range u.Routes {
		if r := &u.Routes[i]; r.isNamed() {
			names = append(names, r.Method)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
