// A Checkup checks what the commands and a guarded program rely on: the
// configuration and the figures of its presets, the lanes and regions of its
// budgets, credentials, the state folder, the ledger and its clock. Each
// finding says what to do.

package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// The grades of a Finding; redisledger.Severity has the same words.
const (
	OK      = "ok"
	Note    = "note"
	Warning = "warning"
	Problem = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Grade string  `json:"grade"`
	What  string  `json:"what"`
	Do    *string `json:"do"` // what to do about it; nil if there is nothing to do
}

// Checkup gathers findings. It is not safe for concurrent use.
type Checkup struct {
	Findings []Finding
	Err      error              // the error of the first problem; nil if there is none
	Message  func(error) string // returns the text of an error without secrets
	Now      func() time.Time

	checked    map[string]error // by file: why it cannot be written
	isReplaced bool             // the ledger is empty, and another one was used before
}

// Add adds a finding; do may be "".
func (c *Checkup) Add(grade, do, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{Grade: grade, What: fmt.Sprintf(format, args...), Do: human.Optional(do)})
}

// Fail adds an error as a problem; a nil error is ignored.
func (c *Checkup) Fail(err error) {
	if err == nil {
		return
	}
	c.Add(Problem, "", "%s", c.Message(err))
	c.Err = cmp.Or(c.Err, err)
}

func (c *Checkup) failConfig(format string, args ...any) {
	c.Fail(&client.ConfigError{Err: fmt.Errorf(format, args...)})
}

// CheckPresets warns of presets that are superseded or older than a year.
func (c *Checkup) CheckPresets(table *costs.Table) {
	for _, u := range table.Upstreams() {
		p := u.Preset
		if p == nil {
			continue
		}
		switch old := c.Now().After(p.Date.AddDate(1, 0, 0)); {
		case p.SupersededBy != nil:
			c.Add(Warning,
				fmt.Sprintf("write preset: %s in costs.yaml; ration costs presets %[1]s shows its costs and budgets",
					*p.SupersededBy),
				"preset %s is superseded by %s", p.Name, *p.SupersededBy)
		case old:
			c.Add(Warning,
				fmt.Sprintf("check them against %s, write in costs.yaml what changed, or take a newer ration",
					p.Sources[0].Document),
				"preset %s has figures of %s, over a year ago", p.Name, p.Date)
		default:
			c.Add(OK, "", "preset %s of %s", p.Name, p.Date)
		}
	}
}

// CheckHosts notes upstreams without hosts.
func (c *Checkup) CheckHosts(table *costs.Table) {
	for _, u := range table.Upstreams() {
		if len(u.Hosts) == 0 {
			c.Add(Note, "",
				"upstream %s has no hosts, so no request to it is charged or refused; spend, run and the gateway's "+
					"/v1/spend charge its calls by method", human.Name(u.Name))
		}
	}
}

// CheckRoutes warns of the file's routes whose method has no cost: each call
// there is refused. A preset has such routes on purpose.
func (c *Checkup) CheckRoutes(table *costs.Table) {
	list := table.List()
	for _, r := range list.Routes {
		if !r.Refused || r.From.Preset != "" {
			continue
		}
		var priced []string
		for _, m := range list.Methods {
			if m.Account == r.Account {
				priced = append(priced, m.Method)
			}
		}
		method := human.Name(r.Method)
		do := fmt.Sprintf("add %s to costs, unless its calls are meant to be refused", method)
		if meant := strictyaml.Nearest(r.Method, priced); meant != "" {
			do = fmt.Sprintf("write %s in the route, if that is meant, or add %s to costs", human.Name(meant), method)
		}
		c.Add(Warning, do, "%s: route %s: %s has no cost, so its calls are refused", r.From, human.Name(r.Route),
			method)
	}
}

// CheckLimits warns of methods whose calls no budget limits, unless in a lane
// of other programs: probably a typo in the lanes of a budget.
func (c *Checkup) CheckLimits(table *costs.Table) {
	for _, u := range table.Upstreams() {
		limits := func(i int, method string) bool {
			var region string
			if named := u.Budgets[i].Regions; len(named) > 0 {
				region = named[0]
			}
			return slices.ContainsFunc(costs.Lanes(), func(lane string) bool {
				return u.Budgets[i].CoverageAmong(u.Budgets).Covers(method, lane, region)
			})
		}
		var free []string
		for _, m := range u.Costs {
			isLimited := m.Units == 0
			for i := range u.Budgets {
				isLimited = isLimited || limits(i, m.Method)
			}
			if !isLimited {
				free = append(free, human.Name(m.Method))
			}
		}
		if more := len(free) - 3; more > 1 {
			free = append(free[:3], human.Count(more, "other method"))
		}
		if len(free) > 0 {
			c.Add(Warning, "widen the lanes or methods of a budget, unless that is meant",
				"no budget limits %s in the lanes %s: calls are charged, and never refused",
				strings.Join(free, ", "), strings.Join(costs.Lanes(), ", "))
		}
	}
}

// CheckCoverage warns of lanes and regions in budgets that are probably typos:
// such a budget covers no call. regions are those of regions.yaml.
func (c *Checkup) CheckCoverage(budgets []quota.Budget, regions []string) {
	for _, b := range budgets {
		for _, lane := range b.Lanes {
			if near := strictyaml.Nearest(lane, costs.Lanes()); near != "" && !slices.Contains(costs.Lanes(), lane) {
				c.Add(Warning, fmt.Sprintf("write %s in costs.yaml, if that is meant", near),
					"budget %s covers lane %s, which is almost %s", human.Name(b.Name), human.Name(lane), near)
			}
		}
		named := slices.AppendSeq(slices.Clone(b.Regions), maps.Keys(b.Floor))
		slices.Sort(named)
		for _, region := range slices.Compact(named) {
			if !slices.Contains(regions, region) {
				c.Add(Warning,
					"add it to regions.yaml, or remove it from costs.yaml, unless other programs call for it",
					"budget %s names region %s, which regions.yaml does not have", human.Name(b.Name), region)
			}
		}
	}
}
