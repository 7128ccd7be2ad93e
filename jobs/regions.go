package jobs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
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
	Name     string // with a YouTube step ISO 3166-1 alpha-2, such as US
	Schedule Schedule
	Steps    []Step
}

// FetchesYouTube reports whether a step of the regions fetches from YouTube,
// which takes its client and an API key.
func FetchesYouTube(regions []Region) bool {
	return slices.ContainsFunc(regions, func(r Region) bool {
		return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Kind != Command })
	})
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
	r := &reader{check: check, config: &Config{MaxWait: DefaultMaxWait, MaxTotalWait: DefaultMaxTotalWait},
		zone: time.UTC}
	target, err := files.Target(name)
	if err != nil {
		return nil, err
	}
	r.dir = filepath.Dir(target)
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
	dir      string // of the file
	zone     *time.Location
	schedule strictyaml.Node // of regions without one of their own
	fetch    strictyaml.Node // of regions without one of their own

	unscheduled []string // regions that lack a schedule
	idle        []string // regions that lack steps
}

func (r *reader) document(n strictyaml.Node) {
	var regions strictyaml.Node
	isKnown := n.Fields( // if not, it may be the schedule or fetch of regions
		strictyaml.Field{Key: "version", Missing: "version: 1", Read: func(n strictyaml.Node) { n.Int(1, 1) }},
		strictyaml.Field{Key: "timezone", Read: func(n strictyaml.Node) {
			if zone := n.Zone(); zone != nil {
				r.zone = zone
			}
		}},
		strictyaml.Field{Key: "schedule", Read: func(n strictyaml.Node) { r.schedule = n }},
		strictyaml.Field{Key: "max_wait", Read: func(n strictyaml.Node) { r.config.MaxWait = n.Seconds(0, time.Hour) }},
		strictyaml.Field{Key: "max_total_wait",
			Read: func(n strictyaml.Node) { r.config.MaxTotalWait = n.Seconds(0, 24*time.Hour) }},
		strictyaml.Field{Key: "fetch", Read: func(n strictyaml.Node) { r.fetch = n }},
		strictyaml.Field{Key: "regions", Missing: "regions: {US: {}}", Read: func(n strictyaml.Node) { regions = n }},
	)
	if regions.Kind() != strictyaml.Map {
		if regions != (strictyaml.Node{}) {
			regions.Mistake("regions is not a map: write regions: {US: {}}")
		}
		return
	}
	shared := r.readSchedule(r.schedule)
	if r.fetch != (strictyaml.Node{}) {
		(&reader{zone: r.zone, dir: r.dir}).readSteps(r.fetch, "") // reports its mistakes even if every region is wrong
	}
	regions.Entries(func(key, value strictyaml.Node) { r.readRegion(key, value, shared) })
	if isKnown && len(r.unscheduled) > 0 {
		n.Mistake("no schedule for %s: write schedule: \"0 */6 * * *\", here or in each region", firstOf(r.unscheduled))
	}
	if isKnown && len(r.idle) > 0 {
		n.Mistake("nothing to fetch for %s: write fetch: [{trending: {pages: 4}}], here or in each region",
			firstOf(r.idle))
	}
	if regions.IsEmpty() {
		regions.Mistake("no region: write regions: {US: {}}")
	}
}

func (r *reader) readRegion(key, value strictyaml.Node, shared Schedule) {
	region := Region{Name: key.Text(quota.MaxLabel), Schedule: shared}
	if value.Kind() != strictyaml.Map && region.Name != "" {
		value.Mistake("%s is not a map: write %[1]s: {}", region.Name)
		return
	}
	fetch := r.fetch
	isKnown := value.Fields(
		strictyaml.Field{Key: "schedule", Read: func(n strictyaml.Node) { region.Schedule = r.readSchedule(n) }},
		strictyaml.Field{Key: "fetch", Read: func(n strictyaml.Node) { fetch = n }},
	)
	if own := value.Has("schedule"); isKnown && !own && r.schedule == (strictyaml.Node{}) {
		r.unscheduled = append(r.unscheduled, region.Name)
	}
	if hasFetch := fetch != (strictyaml.Node{}); isKnown && !hasFetch {
		r.idle = append(r.idle, region.Name)
	} else if hasFetch {
		region.Steps = r.readSteps(fetch, region.Name)
	}
	r.checkName(key, &region)
	r.config.Regions = append(r.config.Regions, region)
}

// firstOf names the first of some regions and counts the others.
func firstOf(regions []string) string {
	if len(regions) == 1 {
		return regions[0]
	}
	return fmt.Sprintf("%s and %s", regions[0], human.Count(len(regions)-1, "more region"))
}

// checkName reports a name that a region may not have. With a YouTube step it
// is a country code.
func (r *reader) checkName(key strictyaml.Node, region *Region) {
	check := costs.CheckRegionName
	if FetchesYouTube([]Region{*region}) {
		check = CheckRegionCode
	}
	if err := check(region.Name); err != nil && region.Name != "" {
		key.Mistake("%v", err)
		return
	}
	for _, other := range r.config.Regions {
		if other.Name != region.Name && strings.EqualFold(other.Name, region.Name) {
			key.Mistake("region %s differs from %s in case only: rename one", region.Name, other.Name)
		}
	}
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
