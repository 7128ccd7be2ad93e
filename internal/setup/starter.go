// This file writes a first costs.yaml and, for a schedule, regions.yaml.

package setup

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// StarterOptions say what the files are for. The zero value of each but API has
// a default.
type StarterOptions struct {
	API     string      // the name of a preset, or the upstream's host or URL
	Variant string      // of the preset
	Host    string      // of a preset that asks for yours
	Zone    string      // of a preset that asks for the account's time zone; default: UTC
	Account string      // whose quota it is; default: my-project
	Limit   quota.Units // of an upstream without a preset: an hour's calls; of a preset that asks for it

	// One of these asks for a regions.yaml.
	Command  []string // the program that fetches; default: the built-in steps of YouTube, otherwise ./fetch.sh
	Regions  []string // default: US for YouTube, otherwise all
	Schedule string   // default: every six hours
}

// Files are the files to write.
type Files struct {
	Costs   string // "" if the folder has one
	Regions string // "" without a schedule
	Host    string // a host of the upstream, or ""
	Program string // a program that Regions names and that the user has yet to write; "" if there is none
	Note    string // about its short windows, or ""
}

const (
	defaultAccount  = "my-project"
	defaultSchedule = "0 */6 * * *"
	defaultProgram  = "./fetch.sh"
	defaultLimit    = 1000
)

// NewFiles returns the files for options, checked as Load would check them.
// Errors do not name a place in a file, since none is written yet.
func NewFiles(o StarterOptions) (*Files, error) {
	o.Account = cmp.Or(o.Account, defaultAccount)
	preset, err := findPreset(o.API)
	if err != nil {
		return nil, err
	}
	f, used := &Files{}, map[string]bool{"limit": true}
	if preset != nil {
		if missing := o.missing(preset); len(missing) > 0 {
			return nil, fmt.Errorf("preset %s needs %s; ration costs presets %[1]s says what to give", preset.Name,
				strings.Join(missing, " and "))
		}
		if err := o.checkVariant(preset); err != nil {
			return nil, err
		}
		f.Costs, used = o.presetCosts(preset)
	} else {
		f.Costs = o.ownCosts()
	}
	for _, option := range []struct {
		name  string
		given bool
	}{{"variant", o.Variant != ""}, {"host", o.Host != ""}, {"zone", o.Zone != ""}, {"limit", o.Limit != 0}} {
		if option.given && !used[option.name] {
			return nil,
				fmt.Errorf("%s does not ask for a %s: leave it out, and write what differs for you into costs.yaml "+
					"afterwards", o.API, option.name)
		}
	}
	table, err := costs.Parse("costs.yaml", []byte(f.Costs))
	if err != nil {
		return nil, withoutPlaces(err)
	}
	f.Note = table.MarginNote()
	for _, host := range table.Upstreams()[0].Hosts {
		if f.Host == "" && !strings.Contains(host, "*") {
			f.Host = host
		}
	}
	return f, o.addRegions(table, f)
}

// ForTable returns the regions.yaml beside a costs.yaml that is written
// already.
func ForTable(table *costs.Table, o StarterOptions) (*Files, error) {
	f := &Files{}
	return f, o.addRegions(table, f)
}

// WantsRegions reports whether the options ask for a regions.yaml.
func (o *StarterOptions) WantsRegions() bool {
	return o.Schedule != "" || len(o.Regions) > 0 || len(o.Command) > 0
}

// addRegions adds the regions.yaml that the options ask for.
func (o *StarterOptions) addRegions(table *costs.Table, f *Files) error {
	if !o.WantsRegions() {
		return nil
	}
	f.Regions = o.regions(table, f)
	config, err := jobs.Parse("regions.yaml", []byte(f.Regions), nil)
	if err != nil {
		return withoutPlaces(err)
	}
	return CheckRegions(table, config.Regions)
}

// withoutPlaces returns an error with the messages of the mistakes in a file,
// one a line, and leaves other errors.
func withoutPlaces(err error) error {
	wrong, ok := errors.AsType[*strictyaml.Error](err)
	if !ok {
		return err
	}
	var messages []string // an option may stand in several places
	for _, mistake := range wrong.Mistakes {
		if !slices.Contains(messages, mistake.Message) {
			messages = append(messages, mistake.Message)
		}
	}
	return errors.New(strings.Join(messages, "\n"))
}

// checkVariant reports an unknown variant. Without one, more would be missing.
func (o *StarterOptions) checkVariant(p *costs.Preset) error {
	var names []string
	for _, v := range p.Variants {
		names = append(names, v.Name)
	}
	switch {
	case o.Variant == "" || slices.Contains(names, o.Variant):
		return nil
	case len(names) == 0:
		return fmt.Errorf("preset %s has no variants: leave %q out", p.Name, o.Variant)
	}
	return fmt.Errorf("unknown variant of %s %q: %s", p.Name, o.Variant, strictyaml.Advice(o.Variant, names))
}

// missing returns the flags for what a preset asks for and o lacks.
func (o *StarterOptions) missing(p *costs.Preset) (flags []string) {
	quotas := "--limit UNITS"
	if len(p.Variants) > 0 {
		var names []string
		for _, v := range p.Variants {
			names = append(names, v.Name)
		}
		quotas = "--variant " + strings.Join(names, "|")
	}
	for _, ask := range p.Required {
		isLimit := strings.HasSuffix(ask.Line, ".limit") && (o.Limit == 0 || len(p.Variants) > 0)
		isWindow := strings.HasSuffix(ask.Line, ".window") && !strings.Contains(ask.Write, "day:")
		asksQuota := o.Variant == "" && (isLimit || isWindow)
		switch {
		case ask.Line == "hosts" && o.Host == "":
			flags = append(flags, "--host HOST")
		case asksQuota && !slices.Contains(flags, quotas):
			flags = append(flags, quotas)
		}
	}
	return flags
}

// findPreset returns the preset of a name, or nil if it is a host.
func findPreset(api string) (*costs.Preset, error) {
	if api == "" {
		return nil, errors.New("name the upstream: --preset youtube, or --host api.example.com")
	}
	switch preset, several := costs.FindPreset(api); {
	case preset != nil:
		return preset, nil
	case len(several) > 0:
		return nil, fmt.Errorf("several presets are for %s: write %s", api, strings.Join(several, ", or "))
	case webURL(api) != nil:
		return nil, nil
	}
	var names []string
	for _, p := range costs.Presets() {
		names = append(names, p.Name)
	}
	advice := "ration costs presets lists the presets, and a host is one such as api.example.com"
	if meant := strictyaml.Meant(api, names); meant != "" {
		advice = "write " + meant
	} else if webURL("http://"+api) != nil {
		advice = fmt.Sprintf("ration costs presets lists the presets, and a host is written http://%s or https://%[1]s",
			api)
	}
	return nil, fmt.Errorf("%q is neither a preset nor a host: %s", api, advice)
}

// webURL returns the URL of an upstream, or nil if api is none. A host alone
// means https; it must have a dot and no port, since anything else could be a
// misspelled preset.
func webURL(api string) *url.URL {
	isHost := (strings.Contains(api, ".") || api == "localhost") && !strings.ContainsAny(api, "/: ")
	if isHost {
		api = "https://" + api
	}
	u, err := url.Parse(api)
	isWeb := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	if !isWeb || u.Hostname() == "" {
		return nil
	}
	return u
}

// quote returns a text as YAML that is read as that text.
func quote(text string) string {
	out, err := yaml.MarshalWithOptions(text, yaml.JSON())
	if err != nil {
		panic(err) // a string can always be written
	}
	return strings.TrimSpace(string(out))
}

const costsHead = `# What a call costs, and the budgets it is charged to. ration costs prints it.
version: 1
`

const costsTail = `
# Where spends are recorded: a file on one host, redis://HOST:6379/0 for several
# (its password in RATION_REDIS_PASSWORD).
ledger: sqlite:ration.db

# While the ledger cannot be reached: refuse, or an allowance in units a day for
# each host, such as default: {allow: 50}.
when_ledger_down: {default: refuse}

# Answers say when a limit is spent. To see how ration reads one, and to add rules
# (docs/answers.md): curl -si URL | ration explain
`

// presetCosts returns the costs.yaml of a preset, and which options it used.
func (o *StarterOptions) presetCosts(p *costs.Preset) (text string, used map[string]bool) {
	var b strings.Builder
	used = map[string]bool{"variant": true}
	b.WriteString(costsHead)
	fmt.Fprintf(&b, "account: %s   # the upstream's project or account whose quota it is; never a key\n\n",
		quote(o.Account))
	fmt.Fprintf(&b,
		"# %s, as of %s.\n# ration costs presets %s prints its costs and budgets; lines here override them.\n", p.About,
		p.Date, p.Name)
	if o.Variant != "" {
		fmt.Fprintf(&b, "preset: {name: %s, variant: %s}\n", p.Name, quote(o.Variant))
	} else {
		fmt.Fprintf(&b, "preset: %s\n", p.Name)
	}
	zone := quote(cmp.Or(o.Zone, "UTC"))
	var budgets []string
	for _, ask := range p.Required {
		switch key := ask.Line; {
		case key == "hosts" && o.Host != "":
			fmt.Fprintf(&b, "hosts: [%s]\n", quote(o.Host))
			used["host"] = true
		case key == "resets":
			fmt.Fprintf(&b, "resets: {day: %s}   # the time zone of the account\n", zone)
			used["zone"] = true
		case strings.HasSuffix(key, ".limit") && o.Limit > 0 && o.Variant == "":
			budgets = append(budgets, fmt.Sprintf("{name: %s, limit: %d}", budgetOf(key), o.Limit))
			used["limit"] = true
		case strings.HasSuffix(key, ".window") && strings.Contains(ask.Write, "day:"):
			budgets = append(budgets, fmt.Sprintf("{name: %s, window: {day: %s}}", budgetOf(key), zone))
			used["zone"] = true
		}
	}
	if len(budgets) > 0 {
		fmt.Fprintf(&b, "budgets: [%s]\n", strings.Join(budgets, ", "))
	}
	b.WriteString(costsTail)
	return b.String(), used
}

// budgetOf returns the budget in the key of a line such as budgets.NAME.limit.
func budgetOf(key string) string {
	parts := strings.Split(key, ".")
	return strings.Join(parts[1:len(parts)-1], ".")
}

func (o *StarterOptions) ownCosts() string {
	limit, u := cmp.Or(o.Limit, defaultLimit), webURL(o.API)
	insecure := ""
	if u.Scheme == "http" {
		insecure = fmt.Sprintf("insecure: [%s]   # reached by plain http\n", quote(u.Host))
	}
	return costsHead + fmt.Sprintf(`upstream: %s
account: %s   # the upstream's project or account whose quota it is; never a key
hosts: [%s]
%s
# Which method a request is. Write what your upstream charges differently by itself:
# "GET /v1/search": search
routes:
  "GET /{path...}": read
  "HEAD /{path...}": read
  "POST /{path...}": write
  "PUT /{path...}": write
  "PATCH /{path...}": write
  "DELETE /{path...}": write
costs: {read: 1, write: 1}   # units a call

# The upstream's limits; a call is charged to each that covers it.
#   window: 24h (trailing, exact) | {day: America/Los_Angeles} (since midnight there)
budgets:
  - {name: hour, limit: %d, window: 1h}
`, quote(u.Hostname()), quote(o.Account), quote(u.Host), insecure, limit) + costsTail
}

func (o *StarterOptions) regions(table *costs.Table, f *Files) string {
	u := table.Upstreams()[0]
	youtube := u.API != ""
	names := o.Regions
	if len(names) == 0 {
		names = []string{"all"}
		if youtube {
			names = []string{"US"}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"# What to fetch, where and when. ration plan shows what that costs.\nversion: 1\ntimezone: UTC   # of the "+
			"schedules\nschedule: %s   # minute hour day month weekday, or @hourly, @every 6h\nfetch:\n",
		quote(cmp.Or(o.Schedule, defaultSchedule)))
	if youtube && len(o.Command) == 0 {
		b.WriteString("  - trending: {pages: 2}   # the region's chart, 50 videos a page\n  - channels              " +
			" # new channels\n  - categories             # the region's video categories\n")
	} else {
		b.WriteString(o.step(&u, f))
	}
	b.WriteString("regions:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: {}\n", quote(name))
	}
	return b.String()
}

// affordable returns how many calls of an upstream's first method a step may
// make at once: ten, or what the smallest budget admits.
func affordable(u *costs.Upstream) quota.Units {
	calls, first := quota.Units(10), u.Costs[0]
	for _, b := range u.Budgets {
		if !b.Coverage().Covers(first.Method, "", "") {
			continue
		}
		most := b.Limit
		if b.Measure == quota.ByUnits {
			most /= max(first.Units, 1)
		}
		calls = min(calls, most)
	}
	return max(calls, 1)
}

// step is the step of a program.
func (o *StarterOptions) step(u *costs.Upstream, f *Files) string {
	command := slices.Clone(o.Command)
	if len(command) == 0 {
		command = []string{defaultProgram, "{region}"}
	}
	if strings.ContainsRune(command[0], '/') {
		f.Program = command[0]
	}
	for i, word := range command {
		command[i] = quote(word)
	}
	calls := ""
	if len(u.Costs) > 0 {
		calls = fmt.Sprintf("    calls: {%s: %d}   # the most it makes in one pass, its first call first; plan "+
			"counts them\n", quote(u.Costs[0].Method), affordable(u))
	}
	return fmt.Sprintf("  - command: [%s]   # no shell; {region}, {tick} and {zone} are replaced\n%s    timeout: 20m\n",
		strings.Join(command, ", "), calls)
}
