// This file says what differs between two configurations of the same
// program: the prices, the budgets and the regions.

package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// ConfigDescription describes a configuration by subject, such as a budget, and
// property, such as its limit. It is immutable.
type ConfigDescription struct {
	subjects   []string // in the order of the files
	properties map[string][]property
}

type property struct{ name, value string }

// set adds a property, or a value to one; empty ones are left out, and so is a
// subject that has no others.
func (d *ConfigDescription) set(subject, name string, value any) {
	text := fmt.Sprint(value)
	if text == "" || text == "[]" || text == "map[]" {
		return
	}
	if d.properties[subject] == nil {
		d.subjects = append(d.subjects, subject)
	}
	known := d.properties[subject]
	if i := slices.IndexFunc(known, func(p property) bool { return p.name == name }); i >= 0 {
		known[i].value += "; " + text
		return
	}
	d.properties[subject] = append(known, property{name, text})
}

// DescribeConfig returns the description of a configuration.
func DescribeConfig(table *costs.Table, config *jobs.Config) *ConfigDescription {
	d := &ConfigDescription{properties: map[string][]property{}}
	several := len(table.Accounts()) > 1
	for _, u := range table.Upstreams() {
		in := ""
		if several {
			in = " of " + human.Name(u.Account)
		}
		d.addUpstream(&u, in)
		for i := range u.Budgets {
			d.addBudget(&u.Budgets[i], in)
		}
	}
	d.set("regions.yaml", "max_wait", config.MaxWait)
	d.set("regions.yaml", "max_total_wait", config.MaxTotalWait)
	for _, region := range config.Regions {
		d.set("region "+region.Name, "schedule", region.Schedule)
		d.set("region "+region.Name, "timezone", region.Schedule.Zone())
		var steps []string
		for _, step := range region.Steps {
			what := fmt.Sprint(step.Pages)
			if step.Program != nil {
				what = "(" + step.Program.String() + ")"
			}
			steps = append(steps, human.Name(step.Name())+" "+what)
		}
		d.set("region "+region.Name, "fetch", strings.Join(steps, ", "))
	}
	return d
}

func (d *ConfigDescription) addUpstream(u *costs.Upstream, in string) {
	subject := "upstream " + human.Name(u.Name)
	d.set(subject, "account", u.Account)
	for _, line := range u.Settings() {
		d.set(subject, line.Line, human.Name(line.Value))
	}
	if u.Preset != nil {
		d.set(subject, "preset", u.Preset.Name+" "+u.Variant)
	}
	for _, route := range u.Routes {
		when := "method"
		if route.When != "" {
			when += " if " + human.Name(route.When)
		}
		d.set("route "+human.Name(route.Pattern)+in, when, route.Method)
	}
	for _, cost := range u.Costs {
		subject := "cost of " + human.Name(cost.Method) + in
		if d.set(subject, "units", cost.Units); cost.By != nil {
			d.set(subject, "by", cost.By.String())
		}
	}
	var rules []string
	for i := range u.Down {
		rules = append(rules, u.Down[i].String())
	}
	d.set("when_ledger_down"+in, "rules", human.Name(strings.Join(rules, "; ")))
}

func (d *ConfigDescription) addBudget(b *quota.Budget, in string) {
	subject := "budget " + human.Name(b.Name) + in
	d.set(subject, "limit", b.Limit)
	d.set(subject, "window", b.Window)
	d.set(subject, "count", b.Measure)
	d.set(subject, "shadow", b.Shadow)
	d.set(subject, "methods", b.Methods)
	d.set(subject, "except", b.Except)
	d.set(subject, "lanes", b.Lanes)
	d.set(subject, "regions", b.Regions)
	if b.PerKey {
		d.set(subject, "per", "key")
	}
	if len(b.Keys) > 0 {
		d.set(subject, "keys", human.Name(fmt.Sprint(b.Keys)[len("map"):]))
	}
	var floors []string
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		floors = append(floors, fmt.Sprintf("%s %d", human.Name(region), b.Floor[region]))
	}
	d.set(subject, "floor", strings.Join(floors, ", "))
	if b.FloorUntil > 0 {
		d.set(subject, "floor_until", b.FloorUntil.String())
	}
}

// Changes says what is different in later, one line for each change.
func (d *ConfigDescription) Changes(later *ConfigDescription) (lines []string) {
	printf := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, subject := range d.subjects {
		if later.properties[subject] == nil {
			printf("%s: removed", subject)
		}
	}
	for _, subject := range later.subjects {
		before, after := d.properties[subject], later.properties[subject]
		if before == nil {
			var parts []string
			for _, p := range after {
				parts = append(parts, p.name+" "+p.value)
			}
			printf("%s: added, %s", subject, strings.Join(parts, ", "))
			continue
		}
		names := map[string][2]string{}
		var order []string
		for i, side := range [][]property{before, after} {
			for _, p := range side {
				values, known := names[p.name]
				if !known {
					order = append(order, p.name)
				}
				values[i] = p.value
				names[p.name] = values
			}
		}
		for _, name := range order {
			if values := names[name]; values[0] != values[1] {
				printf("%s: %s %s -> %s", subject, name, cmp.Or(values[0], "none"), cmp.Or(values[1], "none"))
			}
		}
	}
	return lines
}
