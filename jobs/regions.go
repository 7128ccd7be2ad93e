package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// The defaults of regions.yaml.
const (
	DefaultMaxWait      = 30 * time.Second
	DefaultMaxTotalWait = 5 * time.Minute
	DefaultPages        = 4 // pages of the trending step
	maxPages            = 100
	defaultChannelPages = 10
)

// Config is the content of regions.yaml.
type Config struct {
	MaxWait      time.Duration // the longest that one call may wait for its units
	MaxTotalWait time.Duration // the longest that all calls of one run may wait together
	Regions      []Region      // in the order of the file
}

// Region says when a region is fetched, and what.
type Region struct {
	Name     string // ISO 3166-1 alpha-2, such as US
	Schedule Schedule
	Steps    []Step
}

// Check returns an error if calls of the given method and caller cannot be
// charged. costs.Table.CheckFetched is a Check.
type Check func(method string, caller quota.Caller) error

// Lane is the lane of scheduled work.
const Lane = quota.LaneCron

// Load reads regions.yaml. The error lists every mistake, each with file, line
// and column. If check is not nil, a step whose calls it rejects is a mistake.
func Load(path string, check Check) (*Config, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, check)
}

// Parse is like Load, but reads data. Errors give name as the file.
func Parse(name string, data []byte, check Check) (*Config, error) {
	r := &reader{check: check, config: &Config{MaxWait: DefaultMaxWait, MaxTotalWait: DefaultMaxTotalWait}, zone: time.UTC}
	file := strictyaml.Parse(name, data)
	documents := file.Documents()
	if len(documents) > 0 {
		r.document(documents[0])
	}
	for _, extra := range documents[min(1, len(documents)):] {
		extra.Mistake("second document: put all regions into the first")
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s: empty: write version, schedule, fetch and regions", name)
	}
	return r.config, nil
}

type reader struct {
	check    Check
	config   *Config
	zone     *time.Location
	schedule strictyaml.Node // of regions without one of their own
	fetch    strictyaml.Node // of regions without one of their own
}

func (r *reader) document(n strictyaml.Node) {
	var regions strictyaml.Node
	n.Fields(
		strictyaml.Field{Key: "version", Missing: "version: 1", Read: func(n strictyaml.Node) { n.Int(1, 1) }},
		strictyaml.Field{Key: "timezone", Read: func(n strictyaml.Node) {
			if zone := n.Zone(); zone != nil {
				r.zone = zone
			}
		}},
		strictyaml.Field{Key: "schedule", Read: func(n strictyaml.Node) { r.schedule = n }},
		strictyaml.Field{Key: "max_wait", Read: func(n strictyaml.Node) { r.config.MaxWait = n.Seconds(0, time.Hour) }},
		strictyaml.Field{Key: "max_total_wait", Read: func(n strictyaml.Node) { r.config.MaxTotalWait = n.Seconds(0, 24*time.Hour) }},
		strictyaml.Field{Key: "fetch", Read: func(n strictyaml.Node) { r.fetch = n }},
		strictyaml.Field{Key: "regions", Missing: "regions: {US: {}}", Read: func(n strictyaml.Node) { regions = n }},
	)
	if regions.Kind() == strictyaml.Other {
		if regions != (strictyaml.Node{}) {
			regions.Mistake("regions is empty: write regions: {US: {}}")
		}
		return
	}
	shared := r.readSchedule(r.schedule)
	if r.fetch != (strictyaml.Node{}) {
		(&reader{zone: r.zone}).readSteps(r.fetch, "") // reports its mistakes even if every region is wrong
	}
	entries := 0
	regions.Entries(func(key, value strictyaml.Node) {
		entries++
		r.readRegion(key, value, shared)
	})
	if entries == 0 && regions.Kind() == strictyaml.Map {
		regions.Mistake("no region: write regions: {US: {}}")
	}
}

func (r *reader) readRegion(key, value strictyaml.Node, shared Schedule) {
	name := key.Text(16)
	if name != "" {
		if err := CheckRegionCode(name); err != nil {
			key.Mistake("%v", err)
			return
		}
	}
	region := Region{Name: name, Schedule: shared}
	fetch := r.fetch
	value.Fields(
		strictyaml.Field{Key: "schedule", Read: func(n strictyaml.Node) { region.Schedule = r.readSchedule(n) }},
		strictyaml.Field{Key: "fetch", Read: func(n strictyaml.Node) { fetch = n }},
	)
	if own := value.Has("schedule"); !own && r.schedule == (strictyaml.Node{}) {
		key.Mistake("%s has no schedule: write schedule: \"0 */6 * * *\", here or for all", name)
	}
	if fetch == (strictyaml.Node{}) {
		key.Mistake("%s has nothing to fetch: write fetch: [{trending: {pages: 4}}], here or for all", name)
	} else {
		region.Steps = r.readSteps(fetch, name)
	}
	r.config.Regions = append(r.config.Regions, region)
}

func (r *reader) readSchedule(n strictyaml.Node) Schedule {
	if n == (strictyaml.Node{}) {
		return Schedule{}
	}
	text := n.Text(200)
	if text == "" {
		return Schedule{}
	}
	schedule, err := ParseSchedule(text, r.zone)
	if err != nil {
		n.Mistake("%v", err)
	}
	return schedule
}

// readSteps reads a fetch list. The shared list is read once for each region,
// since the budgets that a call is charged to depend on the region. A repeated
// mistake is reported once.
func (r *reader) readSteps(n strictyaml.Node, region string) []Step {
	var steps []Step
	add := func(at strictyaml.Node, step Step) {
		if slices.ContainsFunc(steps, func(s Step) bool { return s.Name() == step.Name() }) {
			at.Mistake("%s is fetched twice: remove one", step.Name())
			return
		}
		if r.check != nil {
			if err := r.check(step.Method(), quota.Caller{Lane: Lane, Job: step.Name(), Region: region}); err != nil {
				at.Mistake("%v", err)
			}
		}
		steps = append(steps, step)
	}
	items := 0
	n.Items(func(item strictyaml.Node) {
		items++
		if item.Kind() == strictyaml.Text {
			if kind := item.OneOf("step", kinds); kind != "" {
				readStep(Step{Kind: Kind(kind)}, item, strictyaml.Node{}, add)
			}
			return
		}
		first := true
		item.Entries(func(key, value strictyaml.Node) {
			if !first {
				key.Mistake("second step in one item: start each step with its own dash")
			} else if kind := key.OneOf("step", kinds); kind != "" {
				readStep(Step{Kind: Kind(kind)}, key, value, add)
			}
			first = false
		})
		if first && item.Kind() == strictyaml.Map {
			item.Mistake("empty item in fetch: write trending: {pages: 4}, or remove it")
		}
	})
	if items == 0 && n.Kind() == strictyaml.List {
		n.Mistake("fetch is empty: write fetch: [{trending: {pages: 4}}]")
	}
	return steps
}

// readStep reads the options of a step and calls add for each step they name:
// one for each query of a search, otherwise one.
func readStep(step Step, at, options strictyaml.Node, add func(strictyaml.Node, Step)) {
	pages := strictyaml.Field{Key: "pages", Read: func(n strictyaml.Node) { step.Pages = int(n.Int(1, maxPages)) }}
	var queries []string
	var fields []strictyaml.Field
	switch step.Kind {
	case Trending:
		step.Pages, fields = DefaultPages, []strictyaml.Field{pages}
	case Channels:
		step.Pages, fields = defaultChannelPages, []strictyaml.Field{pages}
	case Categories:
		step.Pages = 1
	case Search:
		step.Pages = 1
		fields = []strictyaml.Field{pages, {Key: "queries", Missing: "queries: [music]", Read: func(n strictyaml.Node) {
			n.Items(func(n strictyaml.Node) { queries = append(queries, n.Text(200)) })
			if len(queries) == 0 && n.Kind() == strictyaml.List {
				n.Mistake("queries is empty: write queries: [music]")
			}
		}}}
	}
	if options != (strictyaml.Node{}) {
		options.Fields(fields...)
	} else if step.Kind == Search {
		at.Mistake("search needs queries: write search: {queries: [music]}")
	}
	if step.Kind != Search {
		add(at, step)
		return
	}
	for _, query := range queries {
		step.Query = query
		add(at, step)
	}
}
