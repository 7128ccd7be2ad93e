// Package changes says what differs between two configurations of the same
// program: the prices, the budgets, the regions and the key.
package changes

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// Config describes a configuration by subject, such as a budget, and property,
// such as its limit. It keeps a hash of the key and is immutable.
type Config struct {
	key        [sha256.Size]byte
	subjects   []string // in the order of the files
	properties map[string][]property
}

type property struct{ name, value string }

// set adds a property; empty ones are left out, and so is a subject that has
// no others.
func (c *Config) set(subject, name string, value any) {
	text := fmt.Sprint(value)
	if text == "" || text == "[]" || text == "map[]" {
		return
	}
	if c.properties[subject] == nil {
		c.subjects = append(c.subjects, subject)
	}
	c.properties[subject] = append(c.properties[subject], property{name, text})
}

// Describe returns the description of a configuration. key is the API key.
func Describe(table *costs.Table, config *jobs.Config, key string) *Config {
	c := &Config{key: sha256.Sum256([]byte(key)), properties: map[string][]property{}}
	several := len(table.Accounts()) > 1
	for _, u := range table.Upstreams() {
		in := ""
		if several {
			in = " of " + human.Name(u.Account)
		}
		c.addUpstream(&u, in)
		for i := range u.Budgets {
			c.addBudget(&u.Budgets[i], in)
		}
	}
	c.set("regions.yaml", "max_wait", config.MaxWait)
	c.set("regions.yaml", "max_total_wait", config.MaxTotalWait)
	for _, region := range config.Regions {
		c.set("region "+region.Name, "schedule", region.Schedule)
		c.set("region "+region.Name, "timezone", region.Schedule.Zone())
		var steps []string
		for _, step := range region.Steps {
			what := fmt.Sprint(step.Pages)
			if step.Program != nil {
				what = "(" + step.Program.String() + ")"
			}
			steps = append(steps, human.Name(step.Name())+" "+what)
		}
		c.set("region "+region.Name, "fetch", strings.Join(steps, ", "))
	}
	return c
}

func (c *Config) addUpstream(u *costs.Upstream, in string) {
	subject := "upstream " + human.Name(u.Name)
	c.set(subject, "account", u.Account)
	c.set(subject, "api", u.API)
	c.set(subject, "hosts", strings.Join(u.Hosts, " "))
	c.set(subject, "domains", strings.Join(u.Domains, " "))
	c.set(subject, "unguarded", strings.Join(u.Unguarded, " "))
	c.set(subject, "feedback", u.Feedback)
	c.set(subject, "unlisted", u.Unlisted)
	c.set(subject, "reset_margin", u.ResetMargin)
	if u.Credential != nil {
		c.set(subject, "credential", human.Name(u.Credential.String()))
	}
	if u.Alert != nil {
		c.set(subject, "alert", human.Name(u.Alert.String()))
	}
	if u.History > 0 {
		c.set(subject, "history", u.History)
	}
	if u.Resets != nil {
		c.set(subject, "resets", u.ResetWindow)
	}
	if u.NotModifiedUnits != nil {
		c.set(subject, "not_modified_units", *u.NotModifiedUnits)
	}
	if u.Preset != nil {
		c.set(subject, "preset", u.Preset.Name+" "+u.Variant)
	}
	for _, route := range u.Routes {
		c.set("route "+human.Name(route.Pattern)+in, "method", route.Method)
	}
	for _, cost := range u.Costs {
		c.set("cost of "+human.Name(cost.Method)+in, "units", cost.Units)
	}
	for i := range u.Batches {
		c.set("batches of "+human.Name(u.Batches[i].Method)+in, "calls", u.Batches[i].String())
	}
	var rules []string
	for i := range u.Down {
		rules = append(rules, u.Down[i].String())
	}
	c.set("when_ledger_down"+in, "rules", human.Name(strings.Join(rules, "; ")))
}

func (c *Config) addBudget(b *quota.Budget, in string) {
	subject := "budget " + human.Name(b.Name) + in
	c.set(subject, "limit", b.Limit)
	c.set(subject, "window", b.Window)
	c.set(subject, "count", b.Measure)
	c.set(subject, "shadow", b.Shadow)
	c.set(subject, "methods", b.Methods)
	c.set(subject, "except", b.Except)
	c.set(subject, "lanes", b.Lanes)
	c.set(subject, "regions", b.Regions)
	var floors []string
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		floors = append(floors, fmt.Sprintf("%s %d", human.Name(region), b.Floor[region]))
	}
	c.set(subject, "floor", strings.Join(floors, ", "))
	if b.FloorUntil > 0 {
		c.set(subject, "floor_until", b.FloorUntil.String())
	}
}

// Changes says what is different in later, one line for each change.
func (c *Config) Changes(later *Config) (lines []string) {
	printf := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, subject := range c.subjects {
		if later.properties[subject] == nil {
			printf("%s: removed", subject)
		}
	}
	for _, subject := range later.subjects {
		before, after := c.properties[subject], later.properties[subject]
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
	if c.key != later.key {
		printf("key: changed")
	}
	return lines
}
